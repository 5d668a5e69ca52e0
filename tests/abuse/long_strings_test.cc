// Strings of 200 KB where an error would repeat them. A status travels in HTTP/2's headers, and one
// that is too long breaks the call: its client sees UNAVAILABLE, and tries again.
#include <string>
#include <vector>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using grpc::StatusCode;

class LongStringsTest : public testing::AbuseFixture {
 protected:
  LongStringsTest() : AbuseFixture({"--shared-memory.name-prefix=gemmd-test-"}) {}

  void ExpectRefusal(const grpc::Status& status, StatusCode code, const std::string& part) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(part), std::string::npos) << status.error_message();
    EXPECT_LT(status.error_message().size() + status.error_details().size(), 1000U);
  }

  grpc::Status Multiply(const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    return v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
  }

  const std::string long_ = std::string(200000, 'x');
};

TEST_F(LongStringsTest, InHeadersAreCut) {
  v1::MatmulRequest request = testing::ZeroRequest(4);
  request.mutable_header()->set_kernel(long_);
  ExpectRefusal(Multiply(request), StatusCode::FAILED_PRECONDITION,
                "kernel is \"" + std::string(128, 'x') +
                    "...\" (200000 bytes): this server has no kernel of that name");
  request = testing::ZeroRequest(4);
  request.mutable_header()->mutable_a()->set_handle(long_);
  ExpectRefusal(Multiply(request), StatusCode::INVALID_ARGUMENT,
                "a.handle has 200000 bytes; a handle has at most 64");
  request.mutable_header()->mutable_a()->set_digest(long_);
  ExpectRefusal(Multiply(request), StatusCode::INVALID_ARGUMENT,
                "a.digest has 200000 bytes; a digest has 32");
  request = testing::ZeroRequest(4);
  request.mutable_header()->mutable_output()->set_region(long_);
  ExpectRefusal(Multiply(request), StatusCode::NOT_FOUND, "output.region is of no region");
}

TEST_F(LongStringsTest, InStreamsAreCutToo) {
  const auto gemm = v1::Gemm::NewStub(channel_);
  v1::MatmulStreamRequest request;
  v1::MatmulStreamResponse response;
  {
    grpc::ClientContext context;
    const auto stream = gemm->MatmulStream(&context);
    *request.mutable_begin()->mutable_header() = testing::ZeroRequest(4).header();
    request.mutable_begin()->mutable_header()->set_kernel(long_);
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.finished().code(), StatusCode::FAILED_PRECONDITION);
    EXPECT_LT(response.ByteSizeLong(), 1000U);
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
  grpc::ClientContext context;
  const auto stream = gemm->MatmulStream(&context);
  request.mutable_join()->set_session(long_);
  ASSERT_TRUE(stream->Write(request));
  EXPECT_FALSE(stream->Read(&response));
  ExpectRefusal(stream->Finish(), StatusCode::NOT_FOUND, "join.session is of no session");
}

TEST_F(LongStringsTest, OfOtherServicesAreCutToo) {
  const auto operands = v1::Operands::NewStub(channel_);
  const auto regions = v1::Regions::NewStub(channel_);
  {
    grpc::ClientContext context;
    v1::GetRequest request;
    request.set_handle(long_);
    v1::GetResponse response;
    ExpectRefusal(operands->Get(&context, request, &response), StatusCode::INVALID_ARGUMENT,
                  "handle has 200000 bytes");
  }
  {
    grpc::ClientContext context;
    v1::ListRequest request;
    request.set_page_token(long_);
    v1::ListResponse response;
    ExpectRefusal(operands->List(&context, request, &response), StatusCode::INVALID_ARGUMENT,
                  "page_token");
  }
  {
    grpc::ClientContext context;
    context.AddMetadata("gemmd-tenant", std::string(6000, 'x'));
    v1::ListResponse response;
    ExpectRefusal(operands->List(&context, {}, &response), StatusCode::INVALID_ARGUMENT,
                  "gemmd-tenant has 6000 characters");
  }
  for (const std::string& name : {long_, std::string(250, 'x')}) {
    grpc::ClientContext context;
    v1::RegisterRegionRequest request;
    request.mutable_posix()->set_name(name);
    request.mutable_posix()->set_size_bytes(1);
    v1::RegisterRegionResponse response;
    const bool is_long = name == long_;
    ExpectRefusal(
        regions->Register(&context, request, &response),
        is_long ? StatusCode::INVALID_ARGUMENT : StatusCode::PERMISSION_DENIED,
        is_long ? "posix.name has 200000 bytes" : "\" (250 bytes); this server takes names");
  }
  grpc::ClientContext context;
  v1::RegionStatusRequest request;
  request.set_region(long_);
  v1::RegionStatusResponse response;
  ExpectRefusal(regions->Status(&context, request, &response), StatusCode::NOT_FOUND,
                "region is of no region");
}

}  // namespace
}  // namespace gemmd
