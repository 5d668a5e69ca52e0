#include "server/cost/time_curve.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// A machine whose times are an overhead and a slope, give or take 5 %, and sometimes much longer.
class Machine {
 public:
  explicit Machine(std::uint32_t seed) : random_(seed) {
    overhead_us_ = std::exp(Uniform(std::log(1), std::log(500)));
    slope_ = std::exp(Uniform(std::log(0.5), std::log(8)));
  }

  double Us(double basis_us) const { return overhead_us_ + slope_ * basis_us; }
  double Measure(double basis_us) {
    const double outlier = random_() % 20 == 0 ? Uniform(2, 100) : 1;
    return Us(basis_us) * std::exp(noise_(random_)) * outlier;
  }
  double Uniform(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  double LogUniform(double least, double most) {
    return std::exp(Uniform(std::log(least), std::log(most)));
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> noise_{0, 0.05};
  double overhead_us_;
  double slope_;
};

TEST(TimeCurve, IsNothingWhereNothingWasObserved) {
  EXPECT_FALSE(TimeCurve().Predict(10).has_value());
}

TEST(TimeCurve, IsWhatWasObserved) {
  TimeCurve curve;
  for (int i = 0; i < 3; ++i) curve.Observe(10, 35);
  const auto point = curve.Predict(10);
  ASSERT_TRUE(point.has_value());
  EXPECT_NEAR(point->us, 35, 0.01);
  EXPECT_NEAR(point->least_us, 30, 1);
  EXPECT_TRUE(point->is_near);
}

// Two sizes that are far apart tell overhead and slope.
TEST(TimeCurve, IsALineBetweenSizesAndBeyondThem) {
  TimeCurve curve;
  for (const double basis_us : {10.0, 1000.0}) {
    for (int i = 0; i < 5; ++i) curve.Observe(basis_us, 100 + 3 * basis_us);
  }
  for (const double basis_us : {20.0, 100.0, 500.0, 3000.0, 1e6}) {
    EXPECT_NEAR(curve.Predict(basis_us)->us, 100 + 3 * basis_us, 0.01 * (100 + 3 * basis_us));
  }
}

// One launch that was held up at a size tells no slope.
TEST(TimeCurve, SizesOfWhichLittleIsKnownTellNoSlope) {
  TimeCurve curve;
  for (const double basis_us : {10.0, 1000.0}) {
    for (int i = 0; i < 5; ++i) curve.Observe(basis_us, 100 + 3 * basis_us);
  }
  curve.Observe(100, 1000);
  EXPECT_NEAR(curve.Predict(1e5)->us, 3e5, 0.01 * 3e5);
}

// Small ones are quick for their size; so will larger ones be.
TEST(TimeCurve, ALargerSizeIsNoSlowerForItsSizeThanAnyIs) {
  TimeCurve curve;
  for (int i = 0; i < 5; ++i) {
    curve.Observe(10, 10);
    curve.Observe(1000, 3000);
  }
  EXPECT_NEAR(curve.Predict(1e5)->us, 3000 + 99000, 0.01 * 102000);
}

TEST(TimeCurve, OverheadOfTheSmallSaysNothingOfTheLarge) {
  TimeCurve curve;
  for (int i = 0; i < 1000; ++i) curve.Observe(1e-5, 50);  // a product of 1 by 1
  const auto large = curve.Predict(1e5);
  EXPECT_GE(large->us, 1e5);
  EXPECT_LE(large->us, 2.1e5);
  EXPECT_EQ(large->least_us, 0);
  EXPECT_FALSE(large->is_near);
  // Nor does one that was held up.
  TimeCurve held_up;
  held_up.Observe(1e-5, 5000);
  EXPECT_LE(held_up.Predict(1e5)->us, 2.2e5);
}

TEST(TimeCurve, TheLargeSayNothingOfTheSmall) {
  TimeCurve curve;
  for (int i = 0; i < 1000; ++i) curve.Observe(1e5, 1.5e5);
  const auto small = curve.Predict(1e-5);
  EXPECT_LE(small->us, 1000);
  EXPECT_EQ(small->least_us, 0);
}

TEST(TimeCurve, WhatIsNearTellsTheLeast) {
  TimeCurve curve;
  for (int i = 0; i < 5; ++i) curve.Observe(100, 300);
  const double at_least = curve.Predict(100)->least_us;
  EXPECT_NEAR(curve.Predict(399)->least_us, at_least, 0.01);        // it may be all overhead
  EXPECT_NEAR(curve.Predict(26)->least_us, 0.26 * at_least, 0.01);  // or all slope
  EXPECT_EQ(curve.Predict(401)->least_us, 0);
  EXPECT_EQ(curve.Predict(24)->least_us, 0);
  curve.ObserveRefusal(399);
  EXPECT_LT(curve.Predict(399)->least_us, 0.9 * at_least);
}

// The prediction is finite and positive after any history, and more for more (noise aside).
TEST(TimeCurve, SurvivesAnyHistory) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&random] {
      return std::exp(std::uniform_real_distribution<double>(-30, 30)(random));
    };
    TimeCurve curve;
    for (int i = 0; i < 50; ++i) {
      curve.Observe(any(), any());
      if (random() % 3 == 0) curve.ObserveRefusal(any());
      const auto point = curve.Predict(any());
      ASSERT_TRUE(std::isfinite(point->us)) << "seed " << seed;
      ASSERT_GT(point->us, 0) << "seed " << seed;
      ASSERT_TRUE(std::isfinite(point->least_us)) << "seed " << seed;
      ASSERT_GE(point->least_us, 0) << "seed " << seed;
    }
  }
}

// The size, after anything of other sizes and twenty observations from `least` to `most` of it.
double PredictedNear(double least, double most, double size_us, Machine* machine) {
  TimeCurve curve;
  for (int i = 0; i < 100; ++i) {
    const double other_us = machine->LogUniform(1e-6, size_us / 8);
    curve.Observe(other_us, machine->Measure(other_us));
  }
  for (int i = 0; i < 20; ++i) {
    const double near_us = machine->LogUniform(least * size_us, most * size_us);
    curve.Observe(near_us, machine->Measure(near_us));
  }
  return curve.Predict(size_us)->us;
}

TEST(TimeCurve, IsWithinAFactorOfTwoOfWhatIsNear) {
  int wrong = 0;
  const auto check = [&wrong](double us, double truth_us, double factor) {
    if (us > factor * truth_us || us < truth_us / factor) ++wrong;
  };
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    Machine machine(seed);
    const double size_us = machine.LogUniform(1e-4, 1e5);
    check(PredictedNear(0.25, 4, size_us, &machine), machine.Us(size_us), 2);
    // If only smaller sizes were observed, noise comes on top.
    check(PredictedNear(0.25, 0.5, size_us, &machine), machine.Us(size_us), 2.2);
  }
  EXPECT_LE(wrong, 4);  // of 4000: all observations next to a size may be outliers
}

// Small products of all sizes, then one that they do not reach.
TEST(TimeCurve, NothingSmallMakesALargeOneSlow) {
  int wrong = 0;
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    Machine machine(seed);
    TimeCurve curve;
    const int count = 1 + static_cast<int>(machine.Uniform(0, 300));
    for (int i = 0; i < count; ++i) {
      const double small_us = machine.LogUniform(1e-5, 3);
      curve.Observe(small_us, machine.Measure(small_us));
    }
    for (const double large_us : {10.0, 30.0, 1e3, 1e5}) {
      const auto point = curve.Predict(large_us);
      ASSERT_LE(point->least_us, 10 * machine.Us(large_us)) << "seed " << seed;
      if (large_us >= 1e3 && point->us > 10 * machine.Us(large_us)) ++wrong;
    }
  }
  EXPECT_LE(wrong, 4);  // of 2000
}

}  // namespace
}  // namespace gemmd
