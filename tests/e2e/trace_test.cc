// Tests what a real server remembers of requests, for whom, and what a collector gets of them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/server_process.h"
#include "tests/testing/token_entry.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using testing::ServerProcess;
using testing::TokenEntry;

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

client::Matrix Ones(std::uint64_t n) {
  client::MatrixFormat format;
  format.type = DataType::kF32;
  format.rows = format.columns = n;
  return *client::Matrix::Create(format, std::string(n * n * 4, '\0'));
}

// The receipt of a product over that transport.
v1::Receipt Multiply(client::Client* connection, client::Transport transport,
                     const client::TraceHeaders& trace) {
  client::CallOptions call;
  call.route.emplace().transport = transport;
  call.trace = trace;
  const absl::StatusOr<client::Product> product = connection->Matmul(
      {client::InlineOperand(Ones(32)), client::InlineOperand(Ones(32))}, {}, call);
  EXPECT_TRUE(product.ok()) << product.status();
  return product.ok() ? product->receipt.server : v1::Receipt();
}

client::ClientOptions OptionsFor(const ServerProcess& server, const std::string& token = "") {
  client::ClientOptions options;
  options.channel.target = server.address();
  options.channel.token = token;
  return options;
}

std::map<std::uint64_t, v1::Timeline> ById(const v1::TracesResponse& traces) {
  std::map<std::uint64_t, v1::Timeline> by_id;
  for (const v1::Timeline& each : traces.timelines()) by_id[each.receipt().request_id()] = each;
  return by_id;
}

TEST(TraceTest, RemembersEachRequestAsItsReceiptHasIt) {
  const ServerProcess server({"--cpu.threads=1"});
  client::Client connection(OptionsFor(server));
  std::vector<v1::Receipt> receipts;
  for (const auto transport : {client::Transport::kUnary, client::Transport::kStream}) {
    receipts.push_back(Multiply(&connection, transport, {kParent, "rojo=1"}));
    receipts.push_back(Multiply(&connection, transport, {}));
  }
  const absl::StatusOr<v1::TracesResponse> traces = connection.Traces({});
  ASSERT_TRUE(traces.ok()) << traces.status();
  const std::map<std::uint64_t, v1::Timeline> by_id = ById(*traces);
  ASSERT_EQ(by_id.size(), receipts.size());
  EXPECT_EQ(traces->recorded_requests(), receipts.size());
  EXPECT_EQ(traces->left_out(), 0U);
  EXPECT_EQ(traces->ring_bytes(), 8U << 20);
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    const v1::Receipt& receipt = receipts[i];
    const v1::Timeline& timeline = by_id.at(receipt.request_id());
    ASSERT_EQ(timeline.receipt().stages_size(), receipt.stages_size());
    for (int s = 0; s < receipt.stages_size(); ++s) {
      EXPECT_EQ(timeline.receipt().stages(s).SerializeAsString(),
                receipt.stages(s).SerializeAsString());
    }
    EXPECT_EQ(timeline.receipt().total_us(), receipt.total_us());
    EXPECT_EQ(timeline.receipt().kernel(), receipt.kernel());
    EXPECT_NE(timeline.launch(), 0U);
    EXPECT_NE(timeline.connection(), 0U);
    EXPECT_EQ(timeline.trace_id(), i % 2 == 0 ? kTrace : "") << i;
    EXPECT_EQ(timeline.parent_span_id(), i % 2 == 0 ? "00f067aa0ba902b7" : "") << i;
  }
  v1::TracesRequest few;
  few.set_max_requests(1);
  const absl::StatusOr<v1::TracesResponse> newest = connection.Traces(few);
  ASSERT_TRUE(newest.ok()) << newest.status();
  ASSERT_EQ(newest->timelines_size(), 1);
  EXPECT_EQ(newest->timelines(0).receipt().request_id(), receipts.back().request_id());
  EXPECT_EQ(newest->left_out(), receipts.size() - 1);
}

TEST(TraceTest, ABadTraceparentIsTheCallersErrorAndNotTheRequests) {
  const ServerProcess server({"--cpu.threads=1"});
  client::Client connection(OptionsFor(server));
  client::CallOptions call;
  call.trace.traceparent = "nonsense";
  EXPECT_EQ(
      connection.Matmul({client::InlineOperand(Ones(2)), client::InlineOperand(Ones(2))}, {}, call)
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
  // A server takes no notice of what others send.
  const auto stub = v1::Gemm::NewStub(server.NewChannel());
  grpc::ClientContext context;
  context.AddMetadata("traceparent", "nonsense");
  v1::MatmulResponse response;
  EXPECT_TRUE(stub->Matmul(&context, testing::ZeroRequest(2), &response).ok());
  const absl::StatusOr<v1::TracesResponse> traces = connection.Traces({});
  ASSERT_TRUE(traces.ok()) << traces.status();
  ASSERT_EQ(traces->timelines_size(), 1);
  EXPECT_EQ(traces->timelines(0).trace_id(), "");
}

TEST(TraceTest, UsersSeeTheirOwnRequestsAndObserversAll) {
  const testing::TemporaryDirectory directory;
  const std::string policy = directory.Path("policy");
  std::ofstream(policy) << TokenEntry("alice-token", "alice", "role: USER")
                        << TokenEntry("bob-token", "bob", "role: USER")
                        << TokenEntry("watch-token", "watch", "role: OBSERVER");
  const ServerProcess server({"--cpu.threads=1", "--auth.policy-file=" + policy});
  client::Client alice(OptionsFor(server, "alice-token"));
  client::Client bob(OptionsFor(server, "bob-token"));
  client::Client watch(OptionsFor(server, "watch-token"));
  client::Client nobody(OptionsFor(server));
  const std::uint64_t hers = Multiply(&alice, client::Transport::kUnary, {}).request_id();
  const std::uint64_t his = Multiply(&bob, client::Transport::kStream, {}).request_id();
  const auto seen = [](client::Client* by) {
    const absl::StatusOr<v1::TracesResponse> traces = by->Traces({});
    EXPECT_TRUE(traces.ok()) << traces.status();
    std::vector<std::uint64_t> ids;
    for (const auto& each : ById(traces.value_or(v1::TracesResponse()))) ids.push_back(each.first);
    return ids;
  };
  EXPECT_EQ(seen(&alice), std::vector<std::uint64_t>{hers});
  EXPECT_EQ(seen(&bob), std::vector<std::uint64_t>{his});
  EXPECT_EQ(seen(&watch).size(), 2U);
  EXPECT_EQ(nobody.Traces({}).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST(TraceTest, WithoutMemoryItSaysSo) {
  const ServerProcess server({"--cpu.threads=1", "--observe.trace-bytes=0"});
  client::Client connection(OptionsFor(server));
  EXPECT_EQ(connection.Traces({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(TraceTest, TheCommandLineGivesATraceOnAndWritesFiles) {
  const ServerProcess server({"--cpu.threads=1"});
  const testing::TemporaryDirectory directory;
  const std::string gemm = "client/cli/gemm";
  const auto run = [&](std::vector<std::string> arguments, std::vector<std::string> environment) {
    arguments.insert(arguments.begin(), gemm);
    environment.push_back("GEMMD_SERVER=" + server.address());
    return testing::RunProcess(arguments, environment);
  };
  const std::string raw = directory.Path("a.bin");
  std::ofstream(raw) << std::string(8 * 8 * 4, '\0');
  const std::vector<std::string> matmul = {"matmul", raw, raw, "--shape", "8x8", "--type", "f32"};
  std::vector<std::string> with_option = matmul;
  with_option.insert(with_option.end(), {"--traceparent", kParent});
  EXPECT_EQ(run(with_option, {}).exit_code, 0);
  EXPECT_EQ(run(matmul, {absl::StrCat("TRACEPARENT=", kParent), "TRACESTATE=a=b"}).exit_code, 0);
  EXPECT_EQ(run(matmul, {}).exit_code, 0);
  EXPECT_EQ(run(matmul, {"TRACEPARENT=nonsense"}).exit_code, 2);

  const std::string json = directory.Path("trace.json");
  const auto result = run({"trace", "--last", "10m", "-o", json}, {});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(absl::StartsWith(result.output, "3 requests of ")) << result.output;
  std::ifstream file(json);
  const nlohmann::json trace = nlohmann::json::parse(file);
  int traced = 0;
  int requests = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] != "request") continue;
    ++requests;
    traced += event["args"].value("trace_id", "") == kTrace ? 1 : 0;
  }
  EXPECT_EQ(requests, 3);
  EXPECT_EQ(traced, 2);

  const std::string perfetto = directory.Path("trace.pftrace");
  ASSERT_EQ(run({"trace", "-o", perfetto}, {}).exit_code, 0);
  EXPECT_EQ(std::ifstream(perfetto).get(), 0x0a) << "Trace.packet";
}

// One batch of spans, as a collector reads it.
std::string TakeOnePost(int listener) {
  const int fd = accept(listener, nullptr, nullptr);
  std::string text;
  char buffer[4096];
  std::size_t whole = std::string::npos;
  while (text.size() < whole) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
    const std::size_t end = text.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    whole = end + 4 + std::stoul(text.substr(text.find("Content-Length: ") + 16));
  }
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
  EXPECT_EQ(send(fd, answer.data(), answer.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(answer.size()));
  close(fd);
  return text.substr(text.find("\r\n\r\n") + 4);
}

TEST(TraceTest, ACollectorGetsWhatIsSampled) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  ServerProcess server({"--cpu.threads=1", absl::StrCat("--observe.otlp-endpoint=http://127.0.0.1:",
                                                        ntohs(address.sin_port))});
  client::Client connection(OptionsFor(server));
  Multiply(&connection, client::Transport::kUnary, {});
  Multiply(&connection, client::Transport::kStream, {kParent, "rojo=1"});
  const nlohmann::json body = nlohmann::json::parse(TakeOnePost(listener));
  const nlohmann::json& spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"];
  int requests = 0;
  for (const nlohmann::json& span : spans) {
    EXPECT_EQ(span["traceId"], kTrace);
    if (span["kind"] != 2) continue;
    ++requests;
    EXPECT_EQ(span["parentSpanId"], "00f067aa0ba902b7");
    EXPECT_EQ(span["traceState"], "rojo=1");
  }
  EXPECT_EQ(requests, 1);
  EXPECT_GT(spans.size(), 3U);
  close(listener);
}

TEST(TraceTest, AnAddressThatIsNoneStopsTheStart) {
  ServerProcess server({"--cpu.threads=1", "--observe.otlp-endpoint=https://collector"});
  EXPECT_EQ(server.address(), "");
  server.WaitForExit();
  EXPECT_TRUE(absl::StrContains(server.log(), "there is no TLS to a collector")) << server.log();
}

}  // namespace
}  // namespace gemmd
