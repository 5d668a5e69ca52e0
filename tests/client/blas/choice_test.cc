#include "client/blas/choice.h"

#include <chrono>
#include <cmath>
#include <random>

#include "client/blas/pause.h"
#include "gtest/gtest.h"

namespace gemmd::blas {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Choice::TimePoint kStart{seconds(1000)};
const Shape kShape{true, false, true, 1024, 512, 256};
constexpr double kFlops = 2.0 * 1024 * 512 * 256;

TEST(ChoiceTest, AnEstimateIsOfItsShapeAndOfTenSeconds) {
  Choice choice;
  EXPECT_FALSE(choice.Estimated(kShape, kStart).has_value());
  choice.Told(kShape, 500, kStart);
  EXPECT_EQ(500, choice.Estimated(kShape, kStart + milliseconds(9999)));
  EXPECT_FALSE(choice.Estimated(kShape, kStart + seconds(10)).has_value());
  Shape other = kShape;
  other.transpose_a = true;
  EXPECT_FALSE(choice.Estimated(other, kStart).has_value());
  other = kShape;
  other.is_double = false;
  EXPECT_FALSE(choice.Estimated(other, kStart).has_value());
}

TEST(ChoiceTest, EstimatesAreCorrectedByProductsOfTheirSize) {
  Choice choice;
  EXPECT_EQ(100, choice.ThereUs(kFlops, 100));
  for (int i = 0; i < 30; ++i) choice.Took(kFlops, 100, 300);
  EXPECT_NEAR(300, choice.ThereUs(kFlops, 100), 1);
  // Products of four times the operations are another class.
  EXPECT_EQ(100, choice.ThereUs(4 * kFlops, 100));
}

TEST(ChoiceTest, OneProductDoesNotDecide) {
  Choice choice;
  choice.Took(kFlops, 100, 1e9);
  EXPECT_LT(choice.ThereUs(kFlops, 100), 300);
  choice.Took(kFlops, 0, 100);  // no estimate says nothing
  choice.Took(kFlops, 100, 0);
  EXPECT_LT(choice.ThereUs(kFlops, 100), 300);
}

TEST(ChoiceTest, ASlowHourIsForgotten) {
  Choice choice;
  for (int i = 0; i < 30; ++i) choice.Took(kFlops, 100, 1000);
  EXPECT_GT(choice.ThereUs(kFlops, 100), 900);
  for (int i = 0; i < 200; ++i) choice.Stayed(kFlops);
  EXPECT_LT(choice.ThereUs(kFlops, 100), 110);
}

// A product that outlives its estimate corrects it all the same.
TEST(ChoiceTest, ProductsOfLongerThanTenSecondsAreLearnedFrom) {
  Choice choice;
  choice.Told(kShape, 500, kStart);
  EXPECT_FALSE(choice.Estimated(kShape, kStart + seconds(60)).has_value());
  EXPECT_EQ(500, choice.LastEstimated(kShape));
  Shape other = kShape;
  other.m = 1;
  EXPECT_FALSE(choice.LastEstimated(other).has_value());
}

// Whatever came before, corrections stay within bounds, and thirty products of one speed are
// enough.
TEST(ChoiceTest, NoHistoryIsFollowedForLong) {
  std::mt19937 random(1);
  const auto below = [&random](unsigned limit) { return static_cast<int>(random() % limit); };
  for (int history = 0; history < 300; ++history) {
    Choice choice;
    for (int i = below(200); i > 0; --i) {
      if (below(3) == 0) {
        choice.Stayed(kFlops);
      } else {
        choice.Took(kFlops, std::exp(below(40) - 10), std::exp(below(40) - 10));
      }
      const double there = choice.ThereUs(kFlops, 100);
      ASSERT_GE(there, 100 * std::exp(-4.01));
      ASSERT_LE(there, 100 * std::exp(4.01));
    }
    const double truth = 100 * std::exp(below(7) - 3);
    for (int i = 0; i < 30; ++i) choice.Took(kFlops, 100, truth);
    ASSERT_NEAR(choice.ThereUs(kFlops, 100), truth, 0.01 * truth);
  }
}

// Whatever came before, a server is asked again within a minute of the last that it did or said.
TEST(PauseTest, NoHistoryLastsLongerThanAMinute) {
  std::mt19937 random(2);
  for (int history = 0; history < 300; ++history) {
    Pause pause;
    auto now = kStart;
    for (int i = static_cast<int>(random() % 100); i > 0; --i) {
      now += milliseconds(random() % 70000);
      if (random() % 3 == 0) {
        pause.Succeeded();
      } else if (random() % 2 == 0) {
        pause.Failed(now);
      } else {
        pause.ComeBack(now, milliseconds(random() % 1000000));
      }
    }
    ASSERT_FALSE(pause.IsOn(now + seconds(60)));
    pause.Succeeded();
    pause.Failed(now + seconds(60));
    ASSERT_FALSE(pause.IsOn(now + seconds(61)));
  }
}

TEST(PauseTest, DoublesFromASecondToAMinute) {
  Pause pause;
  auto now = kStart;
  EXPECT_FALSE(pause.IsOn(now));
  for (const int length : {1, 2, 4, 8, 16, 32, 60, 60}) {
    pause.Failed(now);
    EXPECT_TRUE(pause.IsOn(now + seconds(length) - milliseconds(1))) << length;
    now += seconds(length);
    EXPECT_FALSE(pause.IsOn(now)) << length;
  }
  pause.Succeeded();
  pause.Failed(now);
  EXPECT_FALSE(pause.IsOn(now + seconds(1)));
}

TEST(PauseTest, CallsThatFailTogetherCountOnce) {
  Pause pause;
  for (int i = 0; i < 16; ++i) pause.Failed(kStart);
  EXPECT_FALSE(pause.IsOn(kStart + seconds(1)));
  pause.Failed(kStart + seconds(1));
  EXPECT_TRUE(pause.IsOn(kStart + milliseconds(2999)));
}

TEST(PauseTest, TheServerSaysWhenToComeBack) {
  Pause pause;
  pause.ComeBack(kStart, milliseconds(300));
  EXPECT_TRUE(pause.IsOn(kStart + milliseconds(299)));
  EXPECT_FALSE(pause.IsOn(kStart + milliseconds(300)));
  pause.ComeBack(kStart, std::chrono::hours(5));
  EXPECT_FALSE(pause.IsOn(kStart + seconds(60)));
}

}  // namespace
}  // namespace gemmd::blas
