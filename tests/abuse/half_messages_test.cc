// Messages that never become whole. gRPC alone would keep what came of them for ever, before any
// code of the server's knows of the call.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

constexpr const char* kMethods[] = {
    "/gemmd.v1.Gemm/Matmul",
    "/gemmd.v1.Gemm/Estimate",
    "/gemmd.v1.Operands/Upload",
    "/gemmd.v1.Operands/Download",
    "/gemmd.v1.Operands/List",
    "/gemmd.v1.Regions/Register",
    "/inference.GRPCInferenceService/ModelInfer",
    "/inference.GRPCInferenceService/ModelStatistics",
    "/inference.GRPCInferenceService/RepositoryModelLoad",
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
  for (const char* method : testing::kUnaryProducts) {
    connections.push_back(std::make_unique<testing::RawConnection>(server_.address()));
    connections.back()->Send(connections.back()->Begin(method), HalfMessage(), false);
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

using testing::kMatmulStream;
using testing::kModelStreamInfer;

// On streams that have no request, whose messages the server does not know of until they are whole.
class HalfChunksTest : public testing::AbuseFixture {
 protected:
  HalfChunksTest() : AbuseFixture({"--limits.stall-timeout-ms=1000"}) {}
};

// Whole messages of some megabytes leave nothing on the connection of a stream that stays open.
TEST_F(HalfChunksTest, EndTheirConnectionAndNoOther) {
  const auto gemm = v1::Gemm::NewStub(channel_);
  const v1::MatmulRequest product = testing::ZeroRequest(256);
  v1::MatmulStreamRequest request;
  *request.mutable_begin()->mutable_header() = product.header();
  *request.mutable_begin()->mutable_payload() = product.payload();
  grpc::ClientContext context;
  const auto stream = gemm->MatmulStream(&context);
  const auto multiply = [&] {
    request.mutable_begin()->set_request_id(request.begin().request_id() + 1);
    EXPECT_TRUE(stream->Write(request));
    v1::MatmulStreamResponse response;
    do {
      ASSERT_TRUE(stream->Read(&response));
    } while (!response.has_finished());
    EXPECT_EQ(response.finished().code(), grpc::StatusCode::OK) << response.finished().message();
  };
  for (int i = 0; i < 4; ++i) {
    multiply();
    grpc::ClientContext once;
    v1::MatmulResponse response;
    EXPECT_TRUE(gemm->Matmul(&once, product, &response).ok());
  }
  testing::RawConnection idle(server_.address());
  idle.Begin(kMatmulStream);
  for (const auto& [method, source] :
       {std::pair{+kMatmulStream, "127.0.3.1"}, {+kModelStreamInfer, "127.0.4.1"}}) {
    testing::RawConnection::Options from_elsewhere;
    from_elsewhere.source = source;  // which opens no other connection for a while then
    testing::RawConnection half(server_.address(), from_elsewhere);
    constexpr std::size_t kBytes = 8 << 20;
    const std::uint32_t call = half.Begin(method);
    EXPECT_EQ(half.SendAsAllowed(call, testing::RawMessageStart(4U * kBytes), kBytes), kBytes);
    std::string answer;
    while (half.Receive(&answer)) {
    }
    EXPECT_EQ(testing::RawHeader(answer, "grpc-status"), "") << "the server knows of no message";
  }
  // One that sent nothing for as long is there yet.
  idle.Begin("/no.such.Service/Method");
  EXPECT_EQ(testing::RawHeader(idle.ReceiveEnd(3), "grpc-status"), "12");
  multiply();
  stream->WritesDone();
  v1::MatmulStreamResponse rest;
  while (stream->Read(&rest)) {
  }
  EXPECT_TRUE(stream->Finish().ok());
}

class ManyHalfChunksTest : public testing::AbuseFixture {
 protected:
  // An address may keep 16 MiB of them.
  ManyHalfChunksTest()
      : AbuseFixture({"--limits.message-bytes=4194304", "--limits.receive-memory-bytes=67108864"}) {
  }
};

// The message that is said to come is far beyond the largest, which gRPC finds when it is whole.
TEST_F(ManyHalfChunksTest, EndTheConnectionThatKeepsTheMost) {
  testing::RawConnection::Options options;
  for (const auto& [method, source] :
       {std::pair{+kMatmulStream, "127.0.3.1"}, {+kModelStreamInfer, "127.0.4.1"}}) {
    options.source = source;
    std::vector<std::unique_ptr<testing::RawConnection>> connections;
    for (const std::size_t mebibytes : {6, 9, 6}) {
      connections.push_back(std::make_unique<testing::RawConnection>(server_.address(), options));
      const std::uint32_t stream = connections.back()->Begin(method);
      const std::size_t bytes = mebibytes << 20;
      EXPECT_EQ(connections.back()->SendAsAllowed(stream, testing::RawMessageStart(~0U), bytes),
                bytes);
    }
    std::string answer;
    while (connections[1]->Receive(&answer)) {
    }
    connections[0]->Begin("/no.such.Service/Method");
    EXPECT_EQ(testing::RawHeader(connections[0]->ReceiveEnd(3), "grpc-status"), "12") << method;
  }
}

}  // namespace
}  // namespace gemmd
