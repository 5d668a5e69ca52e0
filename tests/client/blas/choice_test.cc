#include "client/blas/choice.h"

#include <chrono>

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
