#include "server/net/reading_progress.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <utility>

#include "base/time/units.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kWindow = 30'000 * kMillisecond;
constexpr std::uint64_t kRate = 16384;
constexpr ProgressLimit kLimit{kWindow, kRate};
constexpr TimeNs kLookPeriod = 500 * kMillisecond;

// Looks once a period, though a busy server may be late.
class Looks {
 public:
  explicit Looks(std::mt19937* random) : random_(random) {}
  // Looks at the peer's queue at this time; returns whether it has stalled.
  bool At(TimeNs now, const SendQueue& queue) {
    if (now < next_) return false;
    next_ = now + kLookPeriod + static_cast<TimeNs>((*random_)() % 100) * kMillisecond;
    progress_.Look(queue, kLimit, now);
    return progress_.IsStalled(now);
  }

 private:
  std::mt19937* const random_;
  ReadingProgress progress_;
  TimeNs next_ = 0;
};

// Small answers to a far client: some are under way at every look.
TEST(ReadingProgress, WhoeverTakesAllIsNeverSlow) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    Looks looks(&random);
    const TimeNs round_trip = (1 + static_cast<TimeNs>(random() % 2000)) * kMillisecond;
    const std::uint64_t most_bytes = 1 + random() % 3000;
    std::deque<std::pair<TimeNs, std::uint64_t>> under_way;  // when acknowledged, bytes
    SendQueue queue;
    for (TimeNs now = 0; now < 10 * kWindow; now += 10 * kMillisecond) {
      while (!under_way.empty() && under_way.front().first <= now) {
        queue.acknowledged += under_way.front().second;
        queue.waiting -= under_way.front().second;
        under_way.pop_front();
      }
      if (random() % 8 == 0 || under_way.empty()) {
        const std::uint64_t bytes = 1 + random() % most_bytes;
        under_way.emplace_back(now + round_trip, bytes);
        queue.waiting += bytes;
      }
      ASSERT_FALSE(looks.At(now, queue)) << seed << " at " << now / kMillisecond << " ms";
    }
  }
}

// The queue is filled again whenever a third of it is free, a moment later, as by gRPC.
TEST(ReadingProgress, WhoeverReadsTooSlowlyStallsThoughTheQueueIsSmall) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    Looks looks(&random);
    const std::uint64_t size = std::uint64_t{16384} << random() % 8;
    SendQueue queue{0, size, false};
    bool has_stalled = false;
    TimeNs now = 0;
    for (; now < 10 * kWindow && !has_stalled; now += 10 * kMillisecond) {
      if (queue.has_room) queue.waiting = size;
      const std::uint64_t bytes = random() % (kRate / 100);  // half of the rate
      queue.acknowledged += bytes;
      queue.waiting -= bytes;
      queue.has_room = queue.waiting <= size - size / 3;
      has_stalled = looks.At(now, queue);
    }
    EXPECT_TRUE(has_stalled) << seed;
    EXPECT_GT(now, 3 * kWindow / 2) << seed;
  }
}

// All that is left to send is the system's by now.
TEST(ReadingProgress, WhoeverReadsTooSlowlyStallsThoughTheQueueHasRoom) {
  std::mt19937 random(1);
  Looks looks(&random);
  SendQueue queue{0, 100 * kRate, true};
  TimeNs now = 0;
  for (; !looks.At(now, queue); now += 100 * kMillisecond) {
    queue.acknowledged += kRate / 20;
    queue.waiting -= kRate / 20;
    ASSERT_LT(now, 3 * kWindow);
  }
  EXPECT_GE(now, 2 * kWindow);
}

TEST(ReadingProgress, WhoeverReadsNothingStallsAfterTheWindow) {
  std::mt19937 random(1);
  Looks looks(&random);
  TimeNs now = 0;
  while (!looks.At(now, {5, 100, true})) now += 100 * kMillisecond;
  EXPECT_GE(now, kWindow);
  EXPECT_LE(now, kWindow + 2 * kLookPeriod);
}

}  // namespace
}  // namespace gemmd
