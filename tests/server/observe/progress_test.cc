#include "server/observe/progress.h"

#include <random>
#include <utility>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kWindow = 100 * kMillisecond;
constexpr ProgressLimit kLimit = {kWindow, 1000};  // a byte is worth a millisecond

TEST(Progress, AWindowWithoutABytePasses) {
  Progress progress(kLimit, 7);
  EXPECT_FALSE(progress.IsStalled(7 + kWindow));
  EXPECT_TRUE(progress.IsStalled(7 + kWindow + 1));
  progress.Record(0, 7 + kWindow);
  EXPECT_TRUE(progress.IsStalled(7 + kWindow + 1));
}

TEST(Progress, WhatIsSeenAsAWholeHasItsTimeBeyondTheWindow) {
  const Progress progress = Progress::OfWhole(kLimit, 400, 7);
  EXPECT_EQ(progress.due(), 7 + 500 * kMillisecond);
  EXPECT_FALSE(
      Progress::OfWhole({kWindow, 1}, ~std::uint64_t{0}, 7).IsStalled(1000000000 * kMillisecond));
}

TEST(Progress, NothingToMoveNeverStalls) { EXPECT_FALSE(Progress().IsStalled(kNoDeadline)); }

// Since each moment at which bytes moved, or the transfer began: the period, less the window,
// against the bytes that moved after that moment.
bool HasStalled(const std::vector<std::pair<TimeNs, std::uint64_t>>& history, TimeNs now) {
  std::uint64_t bytes = 0;
  for (std::size_t i = history.size(); i-- > 0;) {
    if (now - history[i].first - kWindow > static_cast<TimeNs>(bytes) * kMillisecond) return true;
    bytes += history[i].second;
  }
  return false;
}

TEST(Progress, StallsAsItsDefinitionSaysInEveryHistory) {
  int stalled = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    TimeNs now = static_cast<TimeNs>(random() % 1000);
    Progress progress(kLimit, now);
    std::vector<std::pair<TimeNs, std::uint64_t>> history = {{now, 0}};
    const unsigned pause = 1 + random() % 200;
    for (int i = 0; i < 50; ++i) {
      now += static_cast<TimeNs>(random() % pause) * kMillisecond + random() % 2;
      ASSERT_EQ(progress.IsStalled(now), HasStalled(history, now)) << "seed " << seed;
      if (progress.IsStalled(now)) {
        ++stalled;
        break;
      }
      const std::uint64_t bytes = random() % (random() % 4 == 0 ? 1000 : pause);
      progress.Record(bytes, now);
      history.emplace_back(now, bytes);
    }
  }
  EXPECT_GT(stalled, 200);
  EXPECT_LT(stalled, 1800);
}

// It is enough to keep the rate, however the bytes are cut.
TEST(Progress, WhoKeepsTheRateInEveryWindowNeverStalls) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    TimeNs now = 0;
    Progress progress(kLimit, now);
    for (int i = 0; i < 100; ++i) {
      const unsigned bytes = 1 + random() % 100;
      now += bytes * kMillisecond;
      ASSERT_FALSE(progress.IsStalled(now)) << "seed " << seed;
      progress.Record(bytes, now);
    }
  }
}

}  // namespace
}  // namespace gemmd
