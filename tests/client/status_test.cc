#include "client/status.h"

#include <string>
#include <utility>
#include <vector>

#include "client/details.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/status.pb.h"
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

TEST(StatusTest, WhatKeepsTlsFromConnectingIsSaid) {
  const auto told = [](const std::string& message,
                       grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
    return std::string(FromGrpc(grpc::Status(code, message)).message());
  };
  const std::string head =
      "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: ";
  for (const auto& [words, cause] : std::vector<std::pair<std::string, std::string>>{
           {"Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify "
            "failed",
            "is of no authority that is trusted here"},
           {"Peer name a.test is not in peer certificate", "has another name"},
           {"Ssl handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version "
            "number",
            "answers in plaintext"},
           {"Socket closed", "wants TLS, or a client certificate"}}) {
    EXPECT_THAT(told(head + words), ::testing::StartsWith(head + words + ": "));
    EXPECT_THAT(told(head + words), HasSubstr(cause));
    const grpc::Status status(grpc::StatusCode::UNAVAILABLE, head + words);
    EXPECT_EQ(IsLasting(FromGrpc(status)), words != "Socket closed");
    // It says nothing of TLS elsewhere.
    EXPECT_EQ(told(words), words);
    EXPECT_EQ(told(head + words, grpc::StatusCode::INTERNAL), head + words);
  }
  EXPECT_THAT(told("empty address list: "), HasSubstr("are no PEM or do not belong together"));
  EXPECT_EQ(told(head + "Connection refused"), head + "Connection refused");
}

TEST(StatusTest, ACallThatReachedNoServerIsMarked) {
  const auto is_unreachable = [](const std::string& message,
                                 grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
    return IsUnreachable(FromGrpc(grpc::Status(code, message)));
  };
  EXPECT_TRUE(is_unreachable("failed to connect to all addresses; last error: UNKNOWN: refused"));
  EXPECT_TRUE(is_unreachable("DNS resolution failed for none.test:50051: no such name"));
  EXPECT_FALSE(is_unreachable("Socket closed"));
  EXPECT_FALSE(is_unreachable("draining: DNS resolution failed"));
  EXPECT_FALSE(is_unreachable("failed to connect to all addresses", grpc::StatusCode::INTERNAL));
}

TEST(StatusTest, WhatAProxyMostLikelySaidNamesThePage) {
  for (const char* words :
       {"Received http2 header with status: 413", "Received RST_STREAM with error code 0",
        "Received RST_STREAM with error code 2"}) {
    const absl::Status status = FromGrpc(grpc::Status(grpc::StatusCode::UNKNOWN, words));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(words));
    EXPECT_THAT(std::string(status.message()), HasSubstr("docs/proxies.md"));
  }
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

TEST(StatusTest, DetailsAreKeptByType) {
  v1::MissingOperands missing;
  missing.add_handles("h7");
  v1::StatusDetails details;
  details.add_details()->PackFrom(v1::Draining());
  details.add_details()->PackFrom(missing);
  const grpc::Status both(grpc::StatusCode::NOT_FOUND, "gone", details.SerializeAsString());
  const absl::Status status = FromGrpc(both);
  EXPECT_EQ(status.message(), "gone");
  EXPECT_TRUE(DetailOf<v1::Draining>(status).has_value());
  const auto found = DetailOf<v1::MissingOperands>(status);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->handles(0), "h7");
  for (const char* bytes : {"", "\xFFno message"}) {
    const absl::Status bare = FromGrpc(grpc::Status(grpc::StatusCode::NOT_FOUND, "gone", bytes));
    EXPECT_EQ(bare, absl::NotFoundError("gone"));
    EXPECT_FALSE(DetailOf<v1::Draining>(bare).has_value());
  }
}

TEST(StatusTest, WhatNobodyHereCancelledIsUnavailable) {
  const absl::Status status = FromGrpc(grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the server ended before it took the request: CANCELLED");
}

}  // namespace
}  // namespace gemmd::client
