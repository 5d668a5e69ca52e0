// The transports over real sockets, driven by schedules that are due at once: no test
// waits for a time.
#include <algorithm>
#include <memory>

#include "client/load/load_generator.h"
#include "client/load/results/summary.h"
#include "client/load/transport/echo_server.h"
#include "client/load/transport/echo_transport.h"
#include "client/load/transport/matmul_transport.h"
#include "gmock/gmock.h"
#include "tests/client/testing/scripted_server.h"

namespace gemmd::load {
namespace {

using ::testing::HasSubstr;

LoadRun SendAtOnce(int requests, Transport& transport, const std::vector<double>& weights = {1}) {
  LoadOptions options;
  options.arrivals.emplace();
  options.arrivals->kind = ArrivalKind::kReplay;
  options.arrivals->replay_ns.assign(static_cast<std::size_t>(requests), 0);
  options.warm_up_ns = 0;
  options.tick_ns = 1000000;
  SteadyClock clock;
  return *GenerateLoad(options, weights, clock, transport);
}

Workload Int8Workload() {
  WorkloadFile file;
  RequestSpec& spec = *file.add_request();
  spec.set_m(2);
  spec.set_n(2);
  spec.set_k(2);
  spec.set_type("int8");
  spec.set_output_type("int8");
  return *MakeWorkload(file);
}

TEST(EchoTransport, CarriesTheSizesAskedFor) {
  EchoServer server;
  ASSERT_NE(server.address(), "");
  EchoOptions options;
  options.channel.target = server.address();
  options.channels = 3;
  // Equal sizes, answers that are part of the request, and such that are longer.
  const auto transport =
      MakeEchoTransport(options, {{1000, 1000}, {300000, 100001}, {10, 3000000}, {5, 0}});
  const LoadRun run = SendAtOnce(200, *transport, {1, 1, 1, 1});
  const Summary summary = Summarize(run, {{}, {}, {}, {}});
  EXPECT_EQ(summary.ok, 200U) << summary.errors.size();
  EXPECT_EQ(summary.entries.size(), 4U);
}

TEST(EchoTransport, AServerThatIsGoneIsUnavailable) {
  EchoOptions options;
  options.channel.target = "127.0.0.1:1";
  EchoSizes streamed{10, 10};
  streamed.streamed = true;
  for (const EchoSizes& sizes : {EchoSizes{10, 10}, streamed}) {
    const auto transport = MakeEchoTransport(options, {sizes});
    const Summary summary = Summarize(SendAtOnce(5, *transport), {{}});
    EXPECT_EQ(summary.errors.at("UNAVAILABLE"), 5U);
  }
}

TEST(EchoTransport, StreamsMessagesOverSeveralConnections) {
  EchoServer server;
  EchoOptions options;
  options.channel.target = server.address();
  options.channels = 2;
  options.streams = 2;
  const auto transport = MakeEchoTransport(options, {{16384, 16384, true, 1 << 20, 1},
                                                     {300000, 1000, true, 65536, 3},
                                                     {1, 3000000, true, 1 << 20, 2}});
  const Summary summary = Summarize(SendAtOnce(200, *transport, {1, 1, 1}), {{}, {}, {}});
  EXPECT_EQ(summary.ok, 200U) << summary.errors.size();
}

TEST(MatmulTransport, CountsErrorsByCodeAndRetriesNothing) {
  testing::ScriptedServer server;
  for (int i = 0; i < 10; ++i) {
    server.Then(testing::Answer(2, 2, "abcd"));
    server.Then(testing::Fail(grpc::StatusCode::UNAVAILABLE, "draining", "0"));
    server.Then(testing::Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "0"));
    server.Then(testing::Answer(2, 2, "abcd"));
  }
  MatmulTransportOptions options;
  options.channel.target = server.target();
  options.channels = 2;
  auto transport = *MatmulTransport::Create(Int8Workload(), options);
  const Summary summary = Summarize(SendAtOnce(40, *transport), {{}});
  EXPECT_EQ(summary.ok, 20U);
  EXPECT_EQ(summary.errors.at("UNAVAILABLE"), 10U);
  EXPECT_EQ(summary.errors.at("RESOURCE_EXHAUSTED"), 10U);
  EXPECT_EQ(server.requests().size(), 40U);
  const Findings findings = transport->TakeFindings();
  EXPECT_EQ(findings.first_errors.at("UNAVAILABLE"), "draining");
  EXPECT_EQ(findings.verified, 0U);
  // The scripted receipt.
  EXPECT_FLOAT_EQ(summary.stage_mean_us[kServerDecode], 1);
  EXPECT_FLOAT_EQ(summary.stage_mean_us[kCompute], 3);
  EXPECT_FLOAT_EQ(summary.stage_mean_us[kServerOther], 1);
  EXPECT_EQ(summary.batch_requests.at(1), 20U);
}

// gRPC keeps back what the connection has no place for, and that would be told as the network's
// time.
TEST(MatmulTransport, AWaitForAPlaceOnTheConnectionIsAStageOfItsOwn) {
  const auto queued_share = [](std::uint64_t calls_per_connection) {
    testing::ScriptedServer server;
    for (int i = 0; i < 30; ++i) server.Then(testing::Answer(2, 2, "abcd"));
    MatmulTransportOptions options;
    options.channel.target = server.target();
    options.calls_per_connection = calls_per_connection;
    auto transport = *MatmulTransport::Create(Int8Workload(), options);
    const LoadRun run = SendAtOnce(30, *transport);
    EXPECT_EQ(Summarize(run, {{}}).ok, 30U);
    // The share that waiting is of the last one's time.
    const Sample& last = *std::max_element(
        run.samples.begin(), run.samples.end(),
        [](const Sample& a, const Sample& b) { return a.completed_ns < b.completed_ns; });
    return last.stage_us[kClientQueue] * 1e3 /
           static_cast<double>(last.completed_ns - last.sent_ns);
  };
  EXPECT_GT(queued_share(1), 0);  // it waited for the 29 before it
  EXPECT_EQ(queued_share(0), 0);
}

TEST(MatmulTransport, FindsWrongProducts) {
  testing::ScriptedServer server;
  for (int i = 0; i < 30; ++i) server.Then(testing::Answer(2, 2, "abcd"));
  MatmulTransportOptions options;
  options.channel.target = server.target();
  options.verify_fraction = 1;
  auto transport = *MatmulTransport::Create(Int8Workload(), options);
  SendAtOnce(30, *transport);
  const Findings findings = transport->TakeFindings();
  EXPECT_EQ(findings.verified, 30U);
  EXPECT_EQ(findings.wrong, 30U);
  EXPECT_THAT(findings.first_wrong, HasSubstr("row "));
  EXPECT_EQ(transport->TakeFindings().verified, 0U);
}

TEST(MatmulTransport, AnswersOfAnotherShapeAreInternal) {
  testing::ScriptedServer server;
  server.Then(testing::Answer(1, 2, "ab"));
  MatmulTransportOptions options;
  options.channel.target = server.target();
  auto transport = *MatmulTransport::Create(Int8Workload(), options);
  EXPECT_EQ(Summarize(SendAtOnce(1, *transport), {{}}).errors.at("INTERNAL"), 1U);
}

TEST(MatmulTransport, SaysWhatGoesOverTheWire) {
  MatmulTransportOptions options;
  auto transport = *MatmulTransport::Create(Int8Workload(), options);
  const std::vector<EchoSizes> sizes = transport->sizes();
  ASSERT_EQ(sizes.size(), 1U);
  EXPECT_GT(sizes[0].request_bytes, 8U);
  EXPECT_LT(sizes[0].request_bytes, 100U);
  EXPECT_GT(sizes[0].answer_bytes, 4U);
}

}  // namespace
}  // namespace gemmd::load
