#include "client/status.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

TEST(StatusTest, EveryCodeIsMirrored) {
  for (int code = 1; code <= 16; ++code) {
    if (code == grpc::StatusCode::CANCELLED) continue;  // below
    const absl::Status status = FromGrpc(grpc::Status(static_cast<grpc::StatusCode>(code), "why"));
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(), "why");
  }
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusTest, AMessageOverTheLimitIsTheCallersToFix) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                            "Received message larger than max (33554451 vs. 4194304)"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a message of 33554451 bytes, but the server accepts at most 4194304: "
                        "inline operands are bounded by ServerInfo.limits.message_bytes"));
}

TEST(StatusTest, ALimitInOtherWordsIsQuoted) {
  for (const char* message : {"Received message larger than max", "message larger than max (big)",
                              "message larger than max (1 vs. )"}) {
    const absl::Status status =
        FromGrpc(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, message));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(StatusTest, WhatNobodyHereCancelledIsUnavailable) {
  const absl::Status status = FromGrpc(grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the server ended before it took the request: CANCELLED");
}

}  // namespace
}  // namespace gemmd::client
