#include "kernels/workshop/model/rank_correlation.h"

#include <gtest/gtest.h>

namespace gemmd::model {
namespace {

TEST(RankCorrelation, IsOneForAnyRisingAndMinusOneForAnyFallingRelation) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {10, 100, 1000, 1001}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {5, 4, 0, -9}), -1);
}

TEST(RankCorrelation, OfTwoNeighboursSwapped) {
  // 1 - 6 * 2 / (5 * 24)
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4, 5}, {1, 3, 2, 4, 5}), 0.9);
}

TEST(RankCorrelation, EqualValuesHaveTheMeanOfTheirRanks) {
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
  EXPECT_NEAR(RankCorrelation({1, 2, 2, 3}, {1, 2, 3, 4}), 0.948683, 1e-6);
  EXPECT_EQ(RankCorrelation({7, 7, 7}, {1, 2, 3}), 0);
}

}  // namespace
}  // namespace gemmd::model
