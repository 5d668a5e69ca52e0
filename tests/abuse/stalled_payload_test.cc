// Clients that send what they owe too slowly, or as chunks of nothing.
#include <string>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"

namespace gemmd {
namespace {

class StalledPayloadTest : public testing::AbuseFixture {
 protected:
  StalledPayloadTest() : AbuseFixture({"--limits.stall-timeout-ms=1000"}) {}

  // Takes some time, so that chunks come slowly.
  void CallSomething() {
    v1::StatisticsResponse statistics;
    for (int i = 0; i < 5; ++i) {
      grpc::ClientContext context;
      EXPECT_TRUE(v1::Admin::NewStub(channel_)->Statistics(&context, {}, &statistics).ok());
    }
  }

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

}  // namespace
}  // namespace gemmd
