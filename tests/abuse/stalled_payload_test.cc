// Clients that send what they owe too slowly, or as chunks of nothing.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

class StalledPayloadTest : public testing::AbuseFixture {
 protected:
  StalledPayloadTest()
      : AbuseFixture({"--limits.stall-timeout-ms=1000", "--limits.min-bytes-per-second=1000"}) {}

  // Takes some time, so that chunks come slowly.
  void CallSomething() {
    v1::StatisticsResponse statistics;
    for (int i = 0; i < 5; ++i) {
      grpc::ClientContext context;
      EXPECT_TRUE(v1::Admin::NewStub(channel_)->Statistics(&context, {}, &statistics).ok());
    }
  }

  // Sends a message and one that takes longer than the time in which something must come. Returns
  // what the server sends.
  std::string AnswerToLongChunk(const std::string& method, const google::protobuf::Message& first,
                                const google::protobuf::Message& second) {
    testing::RawConnection connection(server_.address());
    const std::uint32_t call = connection.Begin(method);
    const std::string begin = testing::RawMessage(false, first.SerializeAsString());
    EXPECT_EQ(connection.SendAsAllowed(call, begin, begin.size()), begin.size());
    const std::string chunk = testing::RawMessage(false, second.SerializeAsString());
    const std::string start = chunk.substr(0, chunk.find('x'));
    std::size_t sent = connection.SendAsAllowed(call, start, kLongChunk / 4);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
    constexpr std::size_t kPiece = 1000;
    while (std::chrono::steady_clock::now() < end && sent < chunk.size() - kPiece) {
      sent += connection.SendAsAllowed(call, "", kPiece);
      CallSomething();
    }
    EXPECT_EQ(connection.SendAsAllowed(call, "", chunk.size() - sent), chunk.size() - sent);
    connection.Send(call, "", true);
    return connection.ReceiveEnd(call);
  }

  static constexpr std::size_t kLongChunk = 4000000;  // all of a plane

  void SetPlane(v1::Operand* operand) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(1000);
    operand->mutable_data()->set_columns(1000);
  }
};

TEST_F(StalledPayloadTest, OfEmptyChunksEndsItsRequest) {
  grpc::ClientContext context;
  const auto stream = v1::Gemm::NewStub(channel_)->MatmulStream(&context);
  v1::MatmulStreamRequest request;
  SetPlane(request.mutable_begin()->mutable_header()->mutable_a());
  SetPlane(request.mutable_begin()->mutable_header()->mutable_b());
  ASSERT_TRUE(stream->Write(request));
  request.mutable_chunk()->set_operand(v1::A);
  std::atomic<bool> is_over{false};
  std::thread writer([&] {
    while (!is_over && stream->Write(request)) CallSomething();
  });
  v1::MatmulStreamResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.finished().code(), grpc::StatusCode::DEADLINE_EXCEEDED)
      << response.finished().message();
  is_over = true;
  writer.join();
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StalledPayloadTest, OfAnUploadEndsIt) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  const auto upload = v1::Operands::NewStub(channel_)->Upload(&context, &response);
  v1::UploadRequest request;
  request.mutable_begin()->set_digest(std::string(32, 'd'));
  SetPlane(request.mutable_begin()->mutable_operand());
  EXPECT_TRUE(upload->Write(request));
  const grpc::Status status = upload->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << status.error_message();
}

TEST_F(StalledPayloadTest, OfALongChunkThatComesDoesNot) {
  v1::UploadRequest begin;
  begin.mutable_begin()->set_digest(std::string(32, 'd'));
  SetPlane(begin.mutable_begin()->mutable_operand());
  v1::UploadRequest chunk;
  chunk.mutable_chunk()->set_data(std::string(kLongChunk, 'x'));
  const std::string answer = AnswerToLongChunk("/gemmd.v1.Operands/Upload", begin, chunk);
  EXPECT_NE(testing::RawHeader(answer, "grpc-message").find("digest"), std::string::npos)
      << testing::RawHeader(answer, "grpc-message");
}

TEST_F(StalledPayloadTest, OfALongChunkThatComesOverAStreamDoesNot) {
  v1::MatmulStreamRequest begin;
  SetPlane(begin.mutable_begin()->mutable_header()->mutable_a());
  SetPlane(begin.mutable_begin()->mutable_header()->mutable_b());
  v1::MatmulStreamRequest chunk;
  chunk.mutable_chunk()->set_operand(v1::A);
  chunk.mutable_chunk()->set_data(std::string(kLongChunk, 'x'));
  // The request's own end is in a message: it lacks its B.
  const std::string answer = AnswerToLongChunk("/gemmd.v1.Gemm/MatmulStream", begin, chunk);
  EXPECT_EQ(answer.find("stall_timeout_ms"), std::string::npos);
  EXPECT_NE(answer.find("payload of b "), std::string::npos) << answer;
}

// A request of the Open Inference Protocol is one message, however long that takes.
TEST_F(StalledPayloadTest, OfALongRequestThatComesOverAStreamDoesNot) {
  inference::ModelInferRequest first = testing::OuterInfer(2);
  first.set_id("first");
  inference::ModelInferRequest second = testing::OuterInfer(2);
  second.set_id("second");
  second.mutable_inputs(1)->set_shape(0, 1000);
  second.mutable_inputs(1)->set_shape(1, 1000);
  second.set_raw_input_contents(1, std::string(kLongChunk, 'x'));
  // The second one's end is in a message: its A has one column.
  const std::string answer = AnswerToLongChunk(testing::kModelStreamInfer, first, second);
  EXPECT_EQ(answer.find("stall_timeout_ms"), std::string::npos);
  EXPECT_NE(answer.find("op(A) is 2 x 1 and op(B) is 1000 x 1000"), std::string::npos) << answer;
}

}  // namespace
}  // namespace gemmd
