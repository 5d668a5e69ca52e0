#include "server/rpc/codec/status.h"

#include <string>

#include "grpcpp/test/server_context_test_spouse.h"
#include "gtest/gtest.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

TEST(ToGrpcStatus, PassesCodeAndMessageThrough) {
  grpc::ServerContext context;
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus(), &context).ok());
  const grpc::Status status = ToGrpcStatus(absl::InvalidArgumentError("a is odd"), &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "a is odd");
  EXPECT_TRUE(grpc::testing::ServerContextTestSpouse(&context).GetTrailingMetadata().empty());
}

TEST(ToGrpcStatus, TellsWhenToRetry) {
  grpc::ServerContext context;
  ToGrpcStatus(WithRetryAfter(absl::ResourceExhaustedError("full"), WaitsFor::kRequests, 37),
               &context);
  const auto metadata = grpc::testing::ServerContextTestSpouse(&context).GetTrailingMetadata();
  ASSERT_EQ(metadata.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(metadata.find("grpc-retry-pushback-ms")->second, "37");
}

TEST(ToGrpcStatus, ABugsDetailsStayInTheLogUnderAnIncident) {
  grpc::ServerContext context;
  ::testing::internal::CaptureStderr();
  const grpc::Status status = ToGrpcStatus(absl::InternalError("secret detail"), &context);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message().find("secret"), std::string::npos);
  const std::string incident = status.error_message().substr(status.error_message().rfind(' ') + 1);
  EXPECT_EQ(incident.size(), 16u);
  EXPECT_NE(log.find("\"incident\":\"" + incident + "\""), std::string::npos) << log;
  EXPECT_NE(log.find("secret detail"), std::string::npos) << log;
}

}  // namespace
}  // namespace gemmd
