// A question of 34 KB whose answer took 2.6 GB: a thousand times the digest of an upload that
// consists of gaps.
#include <string>

#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

class FindMissingTest : public testing::AbuseFixture {
 protected:
  // Begins an upload and sends every other byte of it, as long as the server takes them.
  grpc::Status SendGaps() {
    grpc::ClientContext context;
    v1::UploadResponse response;
    const auto upload = operands_->Upload(&context, &response);
    v1::UploadRequest request;
    request.mutable_begin()->set_digest(digest_);
    v1::Plane* const plane = request.mutable_begin()->mutable_operand()->mutable_data();
    plane->set_type(v1::INT8);
    plane->set_rows(kBytes);
    plane->set_columns(1);
    bool is_taken = upload->Write(request);
    request.mutable_chunk()->set_data("x");
    for (std::uint64_t at = 0; is_taken && at < kBytes; at += 2) {
      request.mutable_chunk()->set_offset_bytes(at);
      is_taken = upload->Write(request);
    }
    upload->WritesDone();
    return upload->Finish();
  }

  grpc::Status FindMissing(int repeats, v1::FindMissingResponse* response) {
    v1::FindMissingRequest request;
    for (int i = 0; i < repeats; ++i) request.add_digests(digest_);
    grpc::ClientContext context;
    return operands_->FindMissing(&context, request, response);
  }

  const std::string digest_ = std::string(32, 'd');
  const std::unique_ptr<v1::Operands::Stub> operands_ = v1::Operands::NewStub(channel_);
};

TEST_F(FindMissingTest, AnAnswerIsSmallHoweverManyGapsThereAre) {
  const grpc::Status sent = SendGaps();
  EXPECT_EQ(sent.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(sent.error_message().find("the upload has 1025 chunks of 1025 bytes"),
            std::string::npos)
      << sent.error_message();
  v1::FindMissingResponse response;
  ASSERT_TRUE(FindMissing(1, &response).ok());
  ASSERT_EQ(response.partial_size(), 1);
  EXPECT_EQ(response.partial(0).missing_size(), 64);
  EXPECT_EQ(response.partial(0).missing(63).end_bytes(), kBytes);
}

TEST_F(FindMissingTest, ADigestIsAnsweredOnce) {
  SendGaps();
  v1::FindMissingResponse response;
  for (int i = 0; i < 10; ++i) {
    const grpc::Status status = FindMissing(1000, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "digests[1] is digests[0] again; each may be named once");
  }
}

}  // namespace
}  // namespace gemmd
