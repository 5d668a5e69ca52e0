#include "server/tenants/retry_after.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// A client that obeys does not spin, whatever was predicted.
TEST(RetryAfter, IsNeverLessThanWhatIsWaitedForTakes) {
  for (const WaitsFor what :
       {WaitsFor::kRequests, WaitsFor::kCalls, WaitsFor::kClients, WaitsFor::kLeases}) {
    EXPECT_GE(LeastRetryMs(what), 20);
    const absl::Status full = absl::ResourceExhaustedError("full");
    EXPECT_EQ(RetryAfterMs(WithRetryAfter(full, what)), LeastRetryMs(what));
    EXPECT_EQ(RetryAfterMs(WithRetryAfter(full, what, 1)), LeastRetryMs(what));
    EXPECT_EQ(RetryAfterMs(WithRetryAfter(full, what, 5000)), 5000);
  }
}

TEST(RetryAfter, IsAbsentUnlessSet) {
  EXPECT_FALSE(RetryAfterMs(absl::ResourceExhaustedError("full")).has_value());
  EXPECT_FALSE(RetryAfterMs(absl::OkStatus()).has_value());
}

}  // namespace
}  // namespace gemmd
