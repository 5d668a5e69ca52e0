// Measures how near transport is to what the wire carries. 1 x N by N x N in f64, so that nearly
// all bytes are B's and go to the server. In one run, taking turns, medians of the rounds:
//   echo       the same bytes as a bare byte buffer to a server that parses nothing: one
//              message, or chunks of 1 MiB over one stream
//   generated  the same request through generated protobuf code on both sides, one message
//   gemmd      the client library against gemmd, less what its receipt says the kernel took
// Targets: gemmd at least 0.9 of the echo, and at least 3 times generated from 64 MiB on.
//
//   bazel run --config=opt //tests/load:wire_overhead [-- ROUNDS [MIB...]]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/client.h"
#include "client/load/data.h"
#include "client/load/transport/echo_server.h"
#include "client/load/transport/echo_transport.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/load/forked_server.h"
#include "tests/load/timing.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kChunkBytes = 1 << 20;
constexpr std::uint64_t kMiB = 1 << 20;

// Has the request parsed, and answers with as many bytes as D would have.
class GeneratedService final : public v1::Gemm::CallbackService {
 public:
  grpc::ServerUnaryReactor* Matmul(grpc::CallbackServerContext* context,
                                   const v1::MatmulRequest* request,
                                   v1::MatmulResponse* response) override {
    response->add_payload()->set_data(
        std::string(request->header().b().data().columns() * sizeof(double), '\0'));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

void ServeGenerated(const ForkedServer::Serving& serving) {
  GeneratedService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  serving(absl::StrCat("127.0.0.1:", port));
  server->Wait();
}

void ServeEcho(const ForkedServer::Serving& serving) {
  const auto* const server = new load::EchoServer();  // lives as long as the process
  serving(server->address());
}

struct Matrices {
  client::Matrix a;
  client::Matrix b;
};

Matrices MatricesOf(std::uint64_t bytes) {
  client::MatrixFormat b;
  b.type = DataType::kF64;
  b.rows = b.columns =
      static_cast<std::uint64_t>(std::sqrt(static_cast<double>(bytes) / sizeof(double)));
  client::MatrixFormat a = b;
  a.rows = 1;
  return {load::Generate(a, {}, 1), load::Generate(b, {}, 2)};
}

double Echo(load::Transport& echo, std::uint16_t entry) {
  return Seconds([&] {
    std::promise<bool> answered;
    echo.Send({0, entry, 0}, [&](const load::Reply& reply) {
      answered.set_value(reply.code == absl::StatusCode::kOk);
    });
    if (!answered.get_future().get()) std::abort();
    echo.Drain();
  });
}

double Generated(v1::Gemm::Stub& stub, const Matrices& matrices) {
  return Seconds([&] {
    v1::MatmulRequest request;
    v1::MatmulResponse response;
    v1::Plane& b = *request.mutable_header()->mutable_b()->mutable_data();
    b.set_rows(matrices.b.format().rows);
    b.set_columns(matrices.b.format().columns);
    for (const client::Matrix* matrix : {&matrices.a, &matrices.b}) {
      const absl::string_view bytes = matrix->bytes();
      request.add_payload()->set_data(bytes.data(), bytes.size());
    }
    grpc::ClientContext context;
    if (!stub.Matmul(&context, request, &response).ok()) std::abort();
  });
}

double Gemmd(client::Client& client, const Matrices& matrices, client::Transport transport) {
  client::CallOptions call;
  call.route.emplace();
  call.route->transport = transport;
  call.route->channels = 1;
  call.route->chunk_bytes = kChunkBytes;
  double kernel_us = 0;
  const double total_s = Seconds([&] {
    const absl::StatusOr<client::Product> product =
        client.Matmul({matrices.a, matrices.b}, {}, call);
    if (!product.ok()) {
      std::fprintf(stderr, "%s\n", product.status().ToString().c_str());
      std::exit(1);
    }
    // A long product goes in slices: from the first one's start to the last one's end.
    double start_us = 0;
    for (const v1::Stage& stage : product->receipt.server.stages()) {
      if (stage.name() != v1::COMPUTE) continue;
      if (kernel_us == 0) start_us = stage.start_us();
      kernel_us = stage.end_us() - start_us;
    }
  });
  return total_s - kernel_us * 1e-6;
}

int Main(int rounds, const std::vector<std::uint64_t>& sizes) {
  const ForkedServer echo_server(ServeEcho);
  const ForkedServer generated_server(ServeGenerated);
  const testing::ServerProcess server({"--limits.message-bytes=2147483647"});
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto stub = v1::Gemm::NewStub(grpc::CreateCustomChannel(
      generated_server.address(), grpc::InsecureChannelCredentials(), arguments));
  client::ClientOptions options;
  options.channel.target = server.address();
  client::Client client(options);
  std::printf("GB/s, one connection, one request at a time, medians of %d rounds\n", rounds);
  std::printf("%6s %9s %9s %9s %9s %9s   gemmd/echo: call, stream   call/generated\n", "MiB",
              "echo", "stream", "generated", "gemmd", "stream");
  for (const std::uint64_t mib : sizes) {
    const Matrices matrices = MatricesOf(mib * kMiB);
    const std::uint64_t bytes = matrices.a.bytes().size() + matrices.b.bytes().size();
    load::EchoOptions echo_options;
    echo_options.channel.target = echo_server.address();
    load::EchoSizes whole;
    whole.request_bytes = bytes;
    whole.answer_bytes = matrices.a.bytes().size();
    load::EchoSizes chunks = whole;
    chunks.streamed = true;
    chunks.chunk_bytes = kChunkBytes;
    const auto echo = load::MakeEchoTransport(echo_options, {whole, chunks});
    const std::vector<std::function<double()>> ways = {
        [&] { return Echo(*echo, 0); },
        [&] { return Echo(*echo, 1); },
        [&] { return Generated(*stub, matrices); },
        [&] { return Gemmd(client, matrices, client::Transport::kUnary); },
        [&] { return Gemmd(client, matrices, client::Transport::kStream); },
    };
    std::vector<std::vector<double>> seconds(ways.size());
    for (int round = -1; round < rounds; ++round) {  // round -1 warms up
      for (std::size_t turn = 0; turn < ways.size(); ++turn) {
        // Each begins in its turn: what follows another finds its caches.
        const std::size_t way = (turn + static_cast<std::size_t>(round + 1)) % ways.size();
        const double time = ways[way]();
        if (round >= 0) seconds[way].push_back(time);
      }
    }
    std::vector<double> rates;
    for (const std::vector<double>& each : seconds) {
      rates.push_back(static_cast<double>(bytes) / Median(each) * 1e-9);
    }
    std::printf("%6d %9.2f %9.2f %9.2f %9.2f %9.2f   %16.3f, %6.3f   %14.2f\n",
                static_cast<int>(mib), rates[0], rates[1], rates[2], rates[3], rates[4],
                rates[3] / rates[0], rates[4] / rates[1], rates[3] / rates[2]);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  std::vector<std::uint64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {1, 16, 64, 256, 1024};
  return gemmd::Main(argc > 1 ? std::atoi(argv[1]) : 9, sizes);
}
