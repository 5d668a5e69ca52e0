// Streams of empty chunks, which bring a request no nearer to its end.
#include <string>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"

namespace gemmd {
namespace {

constexpr int kFar = 1 << 20;  // more chunks than any server should take

using TinyChunksTest = testing::AbuseFixture;

TEST_F(TinyChunksTest, EndTheirRequest) {
  grpc::ClientContext context;
  const auto stream = v1::Gemm::NewStub(channel_)->MatmulStream(&context);
  v1::MatmulStreamRequest request;
  v1::MatmulHeader* const header = request.mutable_begin()->mutable_header();
  for (v1::Operand* operand : {header->mutable_a(), header->mutable_b()}) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(1000);
    operand->mutable_data()->set_columns(1000);
  }
  ASSERT_TRUE(stream->Write(request));
  request.mutable_chunk()->set_operand(v1::A);
  for (int i = 0; i < 1025; ++i) ASSERT_TRUE(stream->Write(request));
  v1::MatmulStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.finished().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(response.finished().message(),
            "payload has 1025 chunks of 0 bytes together; it may have 1024 of them, and one more "
            "for each 4096 bytes");
  // The stream itself lives: what still comes for the request is dropped.
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TinyChunksTest, EndTheirUpload) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  const auto upload = v1::Operands::NewStub(channel_)->Upload(&context, &response);
  v1::UploadRequest request;
  request.mutable_begin()->set_digest(std::string(32, 'd'));
  v1::Plane* const plane = request.mutable_begin()->mutable_operand()->mutable_data();
  plane->set_type(v1::F32);
  plane->set_rows(1000);
  plane->set_columns(1000);
  bool is_taken = upload->Write(request);
  request.mutable_chunk()->set_offset_bytes(0);
  for (int i = 0; is_taken && i < kFar; ++i) is_taken = upload->Write(request);
  EXPECT_FALSE(is_taken);
  const grpc::Status status = upload->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("the upload has 1025 chunks of 0 bytes"), std::string::npos)
      << status.error_message();
}

}  // namespace
}  // namespace gemmd
