#include "server/store/copy_demand.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kStart = 5'000'000'000;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

TEST(CopyDemand, IsDueOnceTheGainsAreThePrice) {
  CopyDemand demand;
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(demand.Add(10, 100, kStart)) << i;
  EXPECT_TRUE(demand.Add(10, 100, kStart));
  EXPECT_TRUE(demand.Add(10, 100, kStart));  // as long as nobody makes the copy
  demand.Forget();
  EXPECT_FALSE(demand.Add(10, 100, kStart));
}

TEST(CopyDemand, OneRequestAloneIsNoHistory) {
  CopyDemand demand;
  EXPECT_FALSE(demand.Add(1e9, 100, kStart));
  EXPECT_TRUE(demand.Add(1e9, 100, kStart));
}

TEST(CopyDemand, WhatWasGainedLongAgoCountsLess) {
  CopyDemand demand;
  EXPECT_FALSE(demand.Add(40, 100, kStart));
  EXPECT_FALSE(demand.Add(40, 100, kStart));
  EXPECT_FALSE(demand.Add(0, 100, kStart + CopyDemand::kHalfLife));
  EXPECT_DOUBLE_EQ(demand.sum_us(), 40);
  // An operand that is used now and then never comes to its price, whenever that is.
  TimeNs now = kStart;
  for (int i = 0; i < 100000; ++i) {
    now += CopyDemand::kHalfLife;
    ASSERT_FALSE(demand.Add(45, 100, now)) << i;
  }
}

TEST(CopyDemand, RestsAfterPressure) {
  CopyDemand demand;
  EXPECT_FALSE(demand.Add(50, 100, kStart));
  demand.Rest(kStart);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(demand.Add(50, 100, kStart + CopyDemand::kRest - 1));
  }
  EXPECT_FALSE(demand.Add(50, 100, kStart + CopyDemand::kRest));
  EXPECT_TRUE(demand.Add(50, 100, kStart + CopyDemand::kRest));
}

TEST(CopyDemand, NoNumberCountsThatIsNone) {
  CopyDemand demand;
  EXPECT_FALSE(demand.Add(50, 100, kStart));
  for (const double gain : {kNoNumber, -kInfinity, -1.0, 0.0}) {
    EXPECT_FALSE(demand.Add(gain, 100, kStart)) << gain;
  }
  for (const double price : {kNoNumber, kInfinity, -1.0, 0.0}) {
    EXPECT_FALSE(demand.Add(50, price, kStart)) << price;
  }
  EXPECT_DOUBLE_EQ(demand.sum_us(), 50);
}

TEST(CopyDemand, NoHistoryBreaksIt) {
  const double numbers[] = {kNoNumber, kInfinity, -kInfinity, -1,   0,    1e-300,
                            1e-3,      1,         70,         5000, 1e300};
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&] { return numbers[random() % std::size(numbers)]; };
    CopyDemand demand;
    TimeNs now = kStart;
    for (int step = 0; step < 500; ++step) {
      // Threads may come in another order than they looked at the clock.
      now += static_cast<TimeNs>(random() % 3 == 0 ? random() : random() % 1000) - 300;
      const double price = any();
      switch (random() % 20) {
        case 0:
          demand.Forget();
          break;
        case 1:
          demand.Rest(now);
          break;
        default:
          if (demand.Add(any(), price, now)) {
            ASSERT_EQ(demand.sum_us(), price) << "seed " << seed;
          }
      }
      ASSERT_TRUE(std::isfinite(demand.sum_us())) << "seed " << seed;
      ASSERT_GE(demand.sum_us(), 0) << "seed " << seed;
    }
    // It is as good as new.
    demand.Forget();
    now += TimeNs{1} << 40;
    ASSERT_FALSE(demand.Add(50, 100, now)) << "seed " << seed;
    ASSERT_TRUE(demand.Add(50, 100, now)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace gemmd
