// Messages that never become whole. gRPC alone would keep what came of them for ever, before any
// code of the server's knows of the call.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

constexpr const char* kMethods[] = {
    "/gemmd.v1.Gemm/Matmul",
    "/gemmd.v1.Gemm/Estimate",
    "/gemmd.v1.Operands/Upload",
    "/gemmd.v1.Operands/Download",
    "/gemmd.v1.Operands/List",
    "/gemmd.v1.Regions/Register",
    "/gemmd.v1.Admin/Statistics",
    "/gemmd.v1.Admin/Tune",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
};

// A million bytes less than it says.
std::string HalfMessage() {
  return testing::RawMessage(false, std::string(1010000, '\0')).substr(0, 10000);
}

class HalfMessagesTest : public testing::AbuseFixture {
 protected:
  HalfMessagesTest()
      : AbuseFixture(
            {"--limits.stall-timeout-ms=1000", "--limits.min-bytes-per-second=1000000000"}) {}
};

// Each of a client of its own, because one address may have few such calls.
TEST_F(HalfMessagesTest, EndTheirCalls) {
  struct Call {
    const char* method;
    std::unique_ptr<testing::RawConnection> connection;
    std::uint32_t stream;
  };
  std::vector<Call> calls;
  for (const char* method : kMethods) {
    testing::RawConnection::Options options;
    options.source = "127.0.2." + std::to_string(calls.size() + 1);
    auto connection = std::make_unique<testing::RawConnection>(server_.address(), options);
    const std::uint32_t stream = connection->Begin(method);
    connection->Send(stream, HalfMessage(), false);
    calls.push_back({method, std::move(connection), stream});
  }
  for (const Call& call : calls) {
    const std::string answer = call.connection->ReceiveEnd(call.stream);
    EXPECT_EQ(testing::RawHeader(answer, "grpc-status"), "4") << call.method;
    EXPECT_NE(testing::RawHeader(answer, "grpc-message").find("limits.stall_timeout_ms"),
              std::string::npos)
        << call.method;
  }
}

class SlowMessagesTest : public testing::AbuseFixture {
 protected:
  // gRPC may hold four messages, so two calls may be slow, and one of each peer.
  SlowMessagesTest()
      : AbuseFixture(
            {"--limits.message-bytes=16777216", "--limits.receive-memory-bytes=67108864"}) {}
};

TEST_F(SlowMessagesTest, AreFewOfOneClient) {
  std::vector<std::unique_ptr<testing::RawConnection>> connections;
  for (int i = 0; i < 2; ++i) {
    connections.push_back(std::make_unique<testing::RawConnection>(server_.address()));
    connections.back()->Send(connections.back()->Begin(kMethods[0]), HalfMessage(), false);
  }
  std::string answer;
  // Either may be the one too many.
  connections.front()->Send(connections.front()->Begin(kMethods[1]), HalfMessage(), false);
  answer = connections.front()->ReceiveEnd(0);
  EXPECT_EQ(testing::RawHeader(answer, "grpc-status"), "8");
  EXPECT_FALSE(testing::RawHeader(answer, "grpc-retry-pushback-ms").empty());
  EXPECT_NE(testing::RawHeader(answer, "grpc-message").find("MatmulStream"), std::string::npos)
      << testing::RawHeader(answer, "grpc-message");
}

}  // namespace
}  // namespace gemmd
