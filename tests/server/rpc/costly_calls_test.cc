#include "server/rpc/calls/costly_calls.h"

#include <random>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

using testing::FakeClock;

TEST(CostlyCallsTest, AFewHaveAPlaceUntilTheirEnd) {
  FakeClock clock;
  CostlyCalls calls(2, &clock);
  auto first = calls.Enter();
  auto second = calls.Enter();
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status refused = calls.Enter().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterMs(refused), 1000);
  first->reset();
  EXPECT_TRUE(calls.Enter().ok());
}

TEST(CostlyCallsTest, TheyTakeATenthOfTheTime) {
  FakeClock clock;
  CostlyCalls calls(2, &clock);
  const TimeNs start = clock.Now();
  ASSERT_TRUE(calls.Enter().ok());
  clock.Advance(50 * kMillisecond);
  calls.Worked(start);
  const absl::Status refused = calls.Enter().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfterMs(refused), 451);
  clock.Advance(450 * kMillisecond);
  EXPECT_TRUE(calls.Enter().ok());
}

TEST(CostlyCallsTest, ShortOnesAreNotCounted) {
  FakeClock clock;
  CostlyCalls calls(2, &clock);
  const TimeNs start = clock.Now();
  clock.Advance(19 * kMillisecond);
  calls.Worked(start);
  EXPECT_TRUE(calls.Enter().ok());
}

// A caller who comes back when it was told to is served once all have ended, whatever came before.
TEST(CostlyCallsTest, NoHistoryShutsThemForGood) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    FakeClock clock;
    CostlyCalls calls(3, &clock);
    std::vector<CostlyCalls::Place> places;
    for (int step = 0; step < 100; ++step) {
      auto place = calls.Enter();
      ASSERT_LE(places.size() + (place.ok() ? 1 : 0), 3U) << "seed " << seed;
      if (place.ok()) {
        const TimeNs start = clock.Now();
        clock.Advance(static_cast<TimeNs>(random() % 100) * kMillisecond);
        calls.Worked(start);
        places.push_back(*std::move(place));
      }
      if (!places.empty() && random() % 2 == 0) places.pop_back();
      clock.Advance(static_cast<TimeNs>(random() % 50) * kMillisecond);
    }
    places.clear();
    if (const absl::Status s = calls.Enter().status(); !s.ok()) {
      clock.Advance(*RetryAfterMs(s) * kMillisecond);
    }
    EXPECT_TRUE(calls.Enter().ok()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gemmd
