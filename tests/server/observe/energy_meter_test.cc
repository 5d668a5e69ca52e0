#include "server/observe/energy_meter.h"

#include <random>

#include "base/time/units.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(EnergyMeter, KnowsNothingBeforeABusyPeriod) {
  EnergyMeter meter;
  meter.AddLaunch(0, kSecond);
  EXPECT_FALSE(meter.JoulesOf(1).has_value());
  meter.AddReading(kSecond, 1000);
  EXPECT_FALSE(meter.JoulesOf(1).has_value()) << "one reading is no period";
  meter.AddReading(2 * kSecond, 1070);
  EXPECT_FALSE(meter.JoulesOf(1).has_value()) << "nothing computed in it";
}

TEST(EnergyMeter, SharesAPeriodsEnergyByComputeTime) {
  EnergyMeter meter;
  meter.AddReading(kSecond, 1000);
  meter.AddLaunch(kSecond, kSecond + kSecond / 4);
  meter.AddLaunch(kSecond, kSecond + kSecond / 4);  // beside it
  meter.AddReading(2 * kSecond, 1500);
  EXPECT_DOUBLE_EQ(*meter.JoulesOf(0.25), 250) << "each has half of the period's 500 J";
  meter.AddReading(3 * kSecond, 1570);
  EXPECT_DOUBLE_EQ(*meter.JoulesOf(0.25), 250) << "an idle period tells nothing new";
  meter.AddLaunch(3 * kSecond, 3 * kSecond + kSecond / 20);
  meter.AddReading(4 * kSecond, 1640);
  EXPECT_DOUBLE_EQ(*meter.JoulesOf(0.25), 250) << "nor does one that is mostly idle";
}

TEST(EnergyMeter, OfALongLaunchThePartInThePeriodCounts) {
  EnergyMeter meter;
  meter.AddReading(10 * kSecond, 1000);
  meter.AddLaunch(2 * kSecond, 11 * kSecond);
  meter.AddReading(11 * kSecond, 1700);
  EXPECT_DOUBLE_EQ(*meter.JoulesOf(9), 9 * 700);
}

TEST(EnergyMeter, ACounterThatBeginsAnewIsNoPeriod) {
  EnergyMeter meter;
  meter.AddReading(kSecond, 1000);
  meter.AddLaunch(kSecond, 2 * kSecond);
  meter.AddReading(2 * kSecond, 5);
  EXPECT_FALSE(meter.JoulesOf(1).has_value());
  meter.AddLaunch(2 * kSecond, 3 * kSecond);
  meter.AddReading(3 * kSecond, 605);
  EXPECT_DOUBLE_EQ(*meter.JoulesOf(1), 600);
}

// Whatever comes in whatever order, the answer is never negative, and no more than the energy of a
// period over a tenth of it.
TEST(EnergyMeter, AnyHistoryLeavesASaneAnswer) {
  std::mt19937_64 random(1);
  constexpr double kMostWatts = 1000;
  for (int history = 0; history < 200; ++history) {
    EnergyMeter meter;
    TimeNs now = kSecond;
    double joules = 0;
    for (int step = 0; step < 200; ++step) {
      switch (random() % 4) {
        case 0: {
          const TimeNs passed = static_cast<TimeNs>(random() % kSecond);
          now += passed;
          joules += static_cast<double>(passed) * 1e-9 * static_cast<double>(random() % 1000);
          break;
        }
        case 1:
          meter.AddReading(now, joules);
          break;
        case 2: {
          const TimeNs start = now - static_cast<TimeNs>(random() % (3 * kSecond));
          meter.AddLaunch(start, now);
          break;
        }
        default:
          if (random() % 20 == 0) joules = 0;
      }
      const std::optional<double> one = meter.JoulesOf(1);
      if (!one.has_value()) continue;
      ASSERT_GE(*one, 0);
      ASSERT_LE(*one, 10 * kMostWatts);
    }
  }
}

}  // namespace
}  // namespace gemmd
