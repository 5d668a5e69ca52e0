// The load generator against the truth, in real time: a gRPC server that answers after
// scripted delays, uniform between 100 and 300 ms, freezes for a second in the middle, and
// fails every fiftieth request. Prints what the server did beside what the generator
// reports, open loop, Poisson arrivals. (Tests have the same in simulated time.)
//
//   bazel run --config=opt //tests/load:scripted_truth [-- RATE [SECONDS]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/time/units.h"
#include "client/calls/timer.h"
#include "client/load/load_generator.h"
#include "client/load/percentile.h"
#include "client/load/random.h"
#include "client/load/results/summary.h"
#include "client/load/transport/matmul_transport.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace gemmd {
namespace {

using load::TimeNs;

// Thread-safe.
class ScriptedService final : public v1::Gemm::CallbackService {
 public:
  ScriptedService(TimeNs stall_begin_ns, TimeNs stall_end_ns)
      : stall_begin_ns_(stall_begin_ns), stall_end_ns_(stall_end_ns) {}

  grpc::ServerUnaryReactor* Matmul(grpc::CallbackServerContext* context,
                                   const v1::MatmulRequest* /*request*/,
                                   v1::MatmulResponse* response) override {
    response->mutable_d()->set_type(v1::INT8);
    response->mutable_d()->set_rows(2);
    response->mutable_d()->set_columns(2);
    response->add_payload()->set_operand(v1::D);
    response->mutable_payload(0)->set_data("abcd");
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const auto [delay_ns, fails] = Script();
    timer_->After(absl::Nanoseconds(delay_ns), [reactor, fails = fails] {
      reactor->Finish(fails ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "scripted")
                            : grpc::Status::OK);
    });
    return reactor;
  }

  // REQUIRES: nothing is under way.
  std::vector<TimeNs> delays_ns;  // of what was answered with OK
  std::uint64_t failed = 0;

 private:
  std::pair<TimeNs, bool> Script() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const TimeNs now_ns = clock_.Now();
    TimeNs delay_ns = std::llround((0.1 + 0.2 * random_.Unit()) * kSecond);
    if (now_ns >= stall_begin_ns_ && now_ns < stall_end_ns_) delay_ns += stall_end_ns_ - now_ns;
    const bool fails = ++count_ % 50 == 0;
    if (fails) {
      ++failed;
    } else {
      delays_ns.push_back(delay_ns);
    }
    return {delay_ns, fails};
  }

  const TimeNs stall_begin_ns_;
  const TimeNs stall_end_ns_;
  const std::shared_ptr<client::Timer> timer_ = client::MakeAlarmTimer();
  load::SteadyClock clock_;
  std::mutex mutex_;
  load::Random random_{7};
  std::uint64_t count_ = 0;
};

load::Workload SmallProduct() {
  load::WorkloadFile file;
  load::RequestSpec& spec = *file.add_request();
  spec.set_m(2);
  spec.set_n(2);
  spec.set_k(2);
  spec.set_type("int8");
  spec.set_output_type("int8");
  return *load::MakeWorkload(file);
}

int Main(double rate_per_s, int seconds) {
  load::SteadyClock clock;
  const TimeNs middle_ns = clock.Now() + seconds * kSecond / 2;
  ScriptedService service(middle_ns, middle_ns + kSecond);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();

  load::MatmulTransportOptions transport_options;
  transport_options.channel.target = absl::StrCat("127.0.0.1:", port);
  auto transport = *load::MatmulTransport::Create(SmallProduct(), transport_options);
  load::LoadOptions options;
  options.arrivals.emplace();
  options.arrivals->rate_per_s = rate_per_s;
  options.warm_up_ns = 0;
  options.duration_ns = seconds * kSecond;
  const load::Summary summary =
      load::Summarize(*load::GenerateLoad(options, {1}, clock, *transport), {{}});

  std::sort(service.delays_ns.begin(), service.delays_ns.end());
  std::printf(
      "%.0f requests/s for %d s: %llu due, %llu answered, %llu failed (server: %zu, %llu)\n",
      rate_per_s, seconds, static_cast<unsigned long long>(summary.requests),
      static_cast<unsigned long long>(summary.ok),
      static_cast<unsigned long long>(summary.error_count()), service.delays_ns.size(),
      static_cast<unsigned long long>(service.failed));
  const auto row = [&service](const char* name, double percent, double us) {
    const double truth_ms =
        static_cast<double>(load::PercentileOf(service.delays_ns, percent)) / 1e6;
    std::printf("  %-6s %9.3f ms reported, %9.3f ms true, %+.2f %%\n", name, us / 1e3, truth_ms,
                (us / 1e3 / truth_ms - 1) * 100);
  };
  row("p50", 50, summary.latency.p50_us);
  row("p90", 90, summary.latency.p90_us);
  row("p99", 99, summary.latency.p99_us);
  row("p99.9", 99.9, summary.latency.p999_us);
  row("max", 100, summary.latency.max_us);
  const bool exact =
      summary.ok == service.delays_ns.size() && summary.error_count() == service.failed;
  return exact ? 0 : 1;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return gemmd::Main(argc > 1 ? std::atof(argv[1]) : 300, argc > 2 ? std::atoi(argv[2]) : 30);
}
