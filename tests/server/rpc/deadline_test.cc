#include "server/rpc/calls/deadline.h"

#include <cmath>

#include "base/time/units.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kNow = 5'000 * kSecond;

// A client's grpc-timeout of so many seconds, as gRPC hands it on.
TimeNs After(std::int64_t seconds) {
  return DeadlineOf(
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(seconds, GPR_TIMESPAN)),
      kNow);
}

TEST(Deadline, IsOnTheClocksTime) {
  EXPECT_NEAR(static_cast<double>(After(100) - kNow), 100e9, 1e9);
  EXPECT_NEAR(static_cast<double>(After(-100) - kNow), -100e9, 1e9);
  EXPECT_EQ(DeadlineOf(gpr_inf_future(GPR_CLOCK_REALTIME), kNow), kNoDeadline);
  EXPECT_EQ(DeadlineOf(gpr_inf_future(GPR_CLOCK_MONOTONIC), kNow), kNoDeadline);
}

TEST(Deadline, ThatIsFarAwayHasNotPassed) {
  constexpr std::int64_t kHour = 3600;
  constexpr std::int64_t kMostHours = 99'999'999;  // eight digits are legal
  for (const std::int64_t hours : {1'000'000L, 2'562'047L, 2'562'048L, 5'124'096L, kMostHours}) {
    EXPECT_GE(After(hours * kHour), kNow + 1'000'000 * kHour * kSecond - kSecond) << hours;
  }
  EXPECT_EQ(After(kMostHours * kHour), kNoDeadline);
  EXPECT_LT(DeadlineOf(gpr_inf_past(GPR_CLOCK_REALTIME), kNow), kNow);
}

}  // namespace
}  // namespace gemmd
