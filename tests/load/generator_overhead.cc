// Measures the cost of the load generator: requests/s of a bare closed loop of gRPC callbacks
// against those of the LoadGenerator library over the same echo server, channels and bytes, in one
// run, taking turns, medians of the rounds. Prints generator / bare, which is to be at least 0.9,
// and the processor time that each takes for a request on the client's side, which other work on
// the machine disturbs less.
//
//   bazel run --config=opt //tests/load:generator_overhead [-- ROUNDS [CHANNELS [IN_FLIGHT]]]
//
// IN_FLIGHT is of each channel. The server is that of gemm bench --ceiling, in a process of
// its own.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/time/units.h"
#include "client/channel.h"
#include "client/load/load_generator.h"
#include "client/load/results/summary.h"
#include "client/load/transport/echo_server.h"
#include "client/load/transport/echo_transport.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/load/forked_server.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kBytes = 16384;
constexpr double kSeconds = 1;

struct Result {
  double requests_per_s = 0;
  double cpu_us = 0;  // of this process, a request
};

Result ResultOf(double requests, double seconds, const load::CpuUsage& cpu) {
  return {requests / seconds, cpu.process * cpu.cores * seconds * 1e6 / requests};
}

double Median(const std::vector<Result>& results, double Result::*field) {
  std::vector<double> values;
  for (const Result& result : results) values.push_back(result.*field);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Serve(const ForkedServer::Serving& serving) {
  const auto* const server = new load::EchoServer();  // lives as long as the process
  serving(server->address());
}

// Nothing but gRPC: each answer starts the next call.
class BareLoop {
 public:
  BareLoop(const std::string& target, int channels) : payload_(kBytes, 'x') {
    client::ChannelOptions options;
    options.target = target;
    options.own_connection = true;
    for (int i = 0; i < channels; ++i) {
      channels_.push_back(client::MakeChannel(options));
      stubs_.push_back(std::make_unique<grpc::GenericStub>(channels_.back()));
    }
  }

  Result Run(int in_flight) {
    stopping_ = false;
    done_ = 0;
    live_ = static_cast<int>(stubs_.size()) * in_flight;
    for (auto& stub : stubs_) {
      for (int i = 0; i < in_flight; ++i) Call(*stub);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const load::CpuReading begin = load::ReadCpu();
    const std::int64_t before = done_;
    std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
    const auto count = static_cast<double>(done_ - before);
    const load::CpuReading end = load::ReadCpu();
    stopping_ = true;
    while (live_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return ResultOf(count, static_cast<double>(end.time_ns - begin.time_ns) / 1e9,
                    load::UsageBetween(begin, end));
  }

 private:
  struct State {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer answer;
  };

  void Call(grpc::GenericStub& stub) {
    auto* state = new State;
    const grpc::Slice slice(payload_.data(), kBytes, grpc::Slice::STATIC_SLICE);
    state->request = grpc::ByteBuffer(&slice, 1);
    stub.UnaryCall(&state->context, "/echo/16384", grpc::StubOptions(), &state->request,
                   &state->answer, [this, &stub, state](const grpc::Status& status) {
                     if (!status.ok()) std::abort();
                     delete state;
                     ++done_;
                     if (stopping_) {
                       --live_;
                     } else {
                       Call(stub);
                     }
                   });
  }

  const std::string payload_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // outlive the calls' contexts
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> done_ = 0;
  std::atomic<int> live_ = 0;
};

Result Generator(const std::string& target, int channels, int in_flight) {
  load::EchoOptions echo;
  echo.channel.target = target;
  echo.channels = channels;
  const auto transport = load::MakeEchoTransport(echo, {{kBytes, kBytes}});
  load::LoadOptions options;
  options.concurrency = channels * in_flight;
  options.warm_up_ns = kSecond / 2;
  options.duration_ns = static_cast<load::TimeNs>(kSeconds * kSecond);
  options.read_cpu = load::ReadCpu;
  load::SteadyClock clock;
  const absl::StatusOr<load::LoadRun> run = load::GenerateLoad(options, {1}, clock, *transport);
  const load::Summary summary = load::Summarize(*run, {load::EntryCost{kBytes, kBytes, 0}});
  if (summary.ok != summary.requests) std::abort();
  return ResultOf(summary.requests_per_s * summary.seconds, summary.seconds, *run->cpu);
}

int Main(int rounds, int channels, int in_flight) {
  const ForkedServer server(Serve);
  BareLoop bare(server.address(), channels);
  std::vector<Result> bare_results;
  std::vector<Result> generator_results;
  for (int round = 0; round < rounds; ++round) {
    // Each begins every other round: what comes second finds a warmer machine.
    for (int turn = 0; turn < 2; ++turn) {
      if ((round + turn) % 2 == 0) {
        bare_results.push_back(bare.Run(in_flight));
      } else {
        generator_results.push_back(Generator(server.address(), channels, in_flight));
      }
    }
    std::printf("round %2d: bare %8.0f/s, generator %8.0f/s, ratio %.3f\n", round + 1,
                bare_results.back().requests_per_s, generator_results.back().requests_per_s,
                generator_results.back().requests_per_s / bare_results.back().requests_per_s);
    std::fflush(stdout);
  }
  const double bare_per_s = Median(bare_results, &Result::requests_per_s);
  const double generator_per_s = Median(generator_results, &Result::requests_per_s);
  std::printf(
      "16 KiB echoes, %d channels x %d in flight, medians of %d rounds\n"
      "  bare       %8.0f requests/s, %5.2f us of processor time each\n"
      "  generator  %8.0f requests/s, %5.2f us\n"
      "  generator / bare = %.3f\n",
      channels, in_flight, rounds, bare_per_s, Median(bare_results, &Result::cpu_us),
      generator_per_s, Median(generator_results, &Result::cpu_us), generator_per_s / bare_per_s);
  return 0;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return gemmd::Main(argc > 1 ? std::atoi(argv[1]) : 9, argc > 2 ? std::atoi(argv[2]) : 4,
                     argc > 3 ? std::atoi(argv[3]) : 64);
}
