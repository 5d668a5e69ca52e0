// Uploads that break their protocol.
#include <memory>
#include <string>
#include <vector>

#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using grpc::StatusCode;

class UploadTest : public ::testing::Test {
 protected:
  grpc::Status Send(const std::vector<v1::UploadRequest>& messages,
                    grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    v1::UploadResponse response;
    const auto call = operands_->Upload(context == nullptr ? &own : context, &response);
    for (const v1::UploadRequest& message : messages) {
      if (!call->Write(message)) break;
    }
    call->WritesDone();
    return call->Finish();
  }

  static v1::UploadRequest Begin(char digest, std::uint64_t rows = 8) {
    v1::UploadRequest message;
    message.mutable_begin()->set_digest(std::string(32, digest));
    v1::Plane* const data = message.mutable_begin()->mutable_operand()->mutable_data();
    data->set_type(v1::INT8);
    data->set_rows(rows);
    data->set_columns(1);
    return message;
  }

  static v1::UploadRequest Chunk() {
    v1::UploadRequest message;
    message.mutable_chunk()->set_data("abcd");
    return message;
  }

  void ExpectRefusal(const grpc::Status& status, const std::string& message) {
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), message);
  }

  static void ExpectComesBack(const grpc::Status& status, const grpc::ClientContext& context) {
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto found = metadata.find("grpc-retry-pushback-ms");
    ASSERT_NE(found, metadata.end());
    EXPECT_EQ(std::string(found->second.data(), found->second.size()), "1000");
  }

  testing::ServerProcess server_{{"--cpu.threads=1", "--operands.memory-bytes=1000"}};
  const std::unique_ptr<v1::Operands::Stub> operands_ = v1::Operands::NewStub(server_.NewChannel());
};

TEST_F(UploadTest, EventsComeInTheirOrder) {
  ExpectRefusal(Send({}), "the upload ended before its begin");
  ExpectRefusal(Send({Chunk()}), "a chunk came before begin");
  ExpectRefusal(Send({Begin('a'), Begin('b')}), "begin came twice");
  ExpectRefusal(Send({Begin('c'), v1::UploadRequest()}),
                "event is missing; it must be begin or chunk");
  ExpectRefusal(Send({Begin('d'), Chunk()}),
                "the upload ended with 4 of 8 bytes; the next one missing is 4 of data");
}

TEST_F(UploadTest, WithoutRoomItHearsWhenToComeBack) {
  EXPECT_FALSE(Send({Begin('a', 800)}).ok());  // which leaves what it began
  grpc::ClientContext context;
  const grpc::Status status = Send({Begin('b', 800)}, &context);
  ExpectComesBack(status, context);
}

TEST_F(UploadTest, WhenItWasDroppedItHearsWhenToComeBack) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  const auto call = operands_->Upload(&context, &response);
  ASSERT_TRUE(call->Write(Begin('a')));
  v1::ReleaseRequest release;
  release.set_digest(std::string(32, 'a'));
  for (bool is_released = false; !is_released;) {
    grpc::ClientContext own;
    v1::ReleaseResponse released;
    const grpc::Status status = operands_->Release(&own, release, &released);
    is_released = status.ok();
    if (!is_released) {
      ASSERT_EQ(status.error_code(), StatusCode::NOT_FOUND);  // it is on its way
    }
  }
  call->Write(Chunk());
  call->WritesDone();
  const grpc::Status status = call->Finish();
  ExpectComesBack(status, context);
}

}  // namespace
}  // namespace gemmd
