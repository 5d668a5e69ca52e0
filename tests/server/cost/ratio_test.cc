#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/cost/ratio_estimate.h"
#include "server/cost/ratio_table.h"

namespace gemmd {
namespace {

// Observations around `center` as a busy machine has them: 5 % of noise.
class Noise {
 public:
  double Around(double center) { return center * std::exp(noise_(random_)); }

 private:
  std::mt19937 random_{11};
  std::normal_distribution<double> noise_{0, 0.05};
};

RatioEstimate Settled(double center, Noise* noise) {
  RatioEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.Observe(noise->Around(center));
  return estimate;
}

TEST(RatioEstimate, IsOneWhereNothingWasObserved) {
  EXPECT_EQ(RatioEstimate().ratio(), 1);
  EXPECT_TRUE(RatioEstimate().is_empty());
}

TEST(RatioEstimate, TakesTheFirstObservationAsItIs) {
  RatioEstimate estimate;
  estimate.Observe(3);
  EXPECT_NEAR(estimate.ratio(), 3, 1e-5);
}

TEST(RatioEstimate, ForgetsASlowFirstLaunchWithTheSecond) {
  RatioEstimate estimate;
  estimate.Observe(1000);
  estimate.Observe(3);
  EXPECT_NEAR(estimate.ratio(), 3, 1e-5);
  for (int i = 0; i < 3; ++i) estimate.Observe(3);
  EXPECT_NEAR(estimate.ratio(), 3, 1e-5);
}

TEST(RatioEstimate, SettlesWithinTheNoise) {
  Noise noise;
  EXPECT_NEAR(Settled(3, &noise).ratio(), 3, 0.1);
  EXPECT_NEAR(Settled(0.01, &noise).ratio(), 0.01, 0.0005);
}

TEST(RatioEstimate, IsNotMovedByAnOutlier) {
  Noise noise;
  for (const double outlier : {1e-9, 0.01, 10.0, 1000.0, 1e30}) {
    RatioEstimate estimate = Settled(3, &noise);
    const double before = estimate.ratio();
    estimate.Observe(outlier);
    EXPECT_NEAR(estimate.ratio(), before, 0.03 * before) << outlier;
  }
}

TEST(RatioEstimate, IsNotMovedFarByOneOutlierInTen) {
  Noise noise;
  RatioEstimate estimate;
  for (int i = 0; i < 1000; ++i) estimate.Observe(noise.Around(i % 10 == 0 ? 300 : 3));
  EXPECT_NEAR(estimate.ratio(), 3, 0.9);
}

TEST(RatioEstimate, FollowsALastingChange) {
  Noise noise;
  RatioEstimate estimate = Settled(1, &noise);
  for (int i = 0; i < 25; ++i) estimate.Observe(noise.Around(2));
  EXPECT_NEAR(estimate.ratio(), 2, 0.2);
  for (int i = 0; i < 35; ++i) estimate.Observe(noise.Around(0.5));
  EXPECT_NEAR(estimate.ratio(), 0.5, 0.05);
}

TEST(RatioEstimate, HasNoLeastBeforeItHasEnough) {
  RatioEstimate estimate;
  for (int i = 1; i < RatioEstimate::kEnough; ++i) {
    estimate.Observe(7);
    EXPECT_EQ(estimate.range().least, 0);
  }
  estimate.Observe(7);
  EXPECT_GT(estimate.range().least, 5);
  EXPECT_LE(estimate.range().least, 7);
}

TEST(RatioEstimate, TheLeastIsHardlyEverUndercut) {
  Noise noise;
  const double least = Settled(3, &noise).range().least;
  EXPECT_GT(least, 2);
  int undercut = 0;
  for (int i = 0; i < 1000; ++i) undercut += noise.Around(3) < least ? 1 : 0;
  EXPECT_LE(undercut, 10);
}

// Requests that are refused are not observed: without this a machine that was slow once would be
// for good.
TEST(RatioEstimate, RefusalsLowerTheLeastAndObservationsRestoreIt) {
  Noise noise;
  RatioEstimate estimate = Settled(1000, &noise);
  const double least = estimate.range().least;
  for (int i = 0; i < 10 * RatioEstimate::kRefusalsPerHalf; ++i) estimate.ObserveRefusal();
  EXPECT_NEAR(estimate.range().least, least / 1024, least / 1e4);
  EXPECT_NEAR(estimate.ratio(), 1000, 50);
  for (int i = 0; i < 10; ++i) estimate.Observe(noise.Around(1000));
  EXPECT_NEAR(estimate.range().least, least, 0.2 * least);
  for (int i = 0; i < 100000; ++i) estimate.ObserveRefusal();
  EXPECT_GE(estimate.range().least, 0);
}

TEST(RatioEstimate, AnObservationBelowTheLeastLowersItToThat) {
  Noise noise;
  RatioEstimate estimate = Settled(1000, &noise);
  estimate.Observe(20);
  EXPECT_LE(estimate.range().least, 20);
  EXPECT_GE(estimate.range().least, 10);
}

TEST(RatioTable, CountsRefusalsOfWhatItHas) {
  RatioTable table(64);
  table.ObserveRefusal(7);
  EXPECT_FALSE(table.Find(7).has_value());
  for (int i = 0; i < 3; ++i) table.Observe(7, 2);
  const double least = table.Find(7)->least;
  EXPECT_GT(least, 1);
  table.ObserveRefusal(7);
  EXPECT_LT(table.Find(7)->least, least);
}

TEST(RatioTable, KeepsKeysApart) {
  RatioTable table(64);
  EXPECT_FALSE(table.Find(7).has_value());
  table.Observe(7, 2);
  table.Observe(8, 4);
  EXPECT_NEAR(table.Find(7)->usual, 2, 1e-5);
  EXPECT_NEAR(table.Find(8)->usual, 4, 1e-5);
  EXPECT_FALSE(table.Find(0).has_value());
}

TEST(RatioTable, ForgetsTheLeastRecentlyUsedOfASet) {
  RatioTable table(RatioTable::kWays);  // one set
  for (std::uint64_t key = 0; key < RatioTable::kWays; ++key) table.Observe(key, 2);
  ASSERT_TRUE(table.Find(0).has_value());  // which is a use
  table.Observe(100, 3);
  EXPECT_TRUE(table.Find(0).has_value());
  EXPECT_FALSE(table.Find(1).has_value());
  EXPECT_NEAR(table.Find(100)->usual, 3, 1e-5);
  // A place that is taken over starts anew.
  table.Observe(1, 5);
  EXPECT_NEAR(table.Find(1)->usual, 5, 1e-5);
}

TEST(RatioTable, HasNoMoreThanItsCapacity) {
  RatioTable table(256);
  EXPECT_EQ(table.capacity(), 256U);
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> keys(10000);
  for (std::uint64_t& key : keys) {
    key = random();
    table.Observe(key, 2);
  }
  std::size_t found = 0;
  for (const std::uint64_t key : keys) found += table.Find(key).has_value() ? 1 : 0;
  EXPECT_LE(found, 256U);
  EXPECT_GT(found, 200U);
}

TEST(RatioTable, IsUsedByManyThreads) {
  RatioTable table(1024);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      for (std::uint64_t i = 0; i < 2000; ++i) {
        table.Observe(i % 100, 2);
        EXPECT_NEAR(table.Find((i + t) % 100).value_or(RatioRange{2, 0}).usual, 2, 1e-5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace gemmd
