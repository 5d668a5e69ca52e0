#include "client/load/arrivals.h"

#include <cmath>

#include "client/load/percentile.h"
#include "gmock/gmock.h"

namespace gemmd::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Arrivals, ConstantRatesDoNotDrift) {
  ArrivalPlan plan;
  plan.kind = ArrivalKind::kConstant;
  plan.rate_per_s = 3;
  const auto arrivals = MakeArrivals(plan);
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(*arrivals->Next(), std::llround(i * 1e9 / 3));
}

TEST(Arrivals, PoissonGapsAreExponentialAndSeeded) {
  ArrivalPlan plan;
  plan.rate_per_s = 1000;
  const auto arrivals = MakeArrivals(plan);
  std::vector<TimeNs> gaps;
  TimeNs last = 0;
  for (int i = 0; i < 100000; ++i) {
    const TimeNs time = *arrivals->Next();
    gaps.push_back(time - last);
    last = time;
  }
  EXPECT_NEAR(static_cast<double>(last) / 100e9, 1, 0.01);
  // The median and the 99th percentile of an exponential distribution of mean 1 ms.
  EXPECT_NEAR(static_cast<double>(SelectPercentile(gaps, 50)) / 1e6, std::log(2), 0.01);
  EXPECT_NEAR(static_cast<double>(SelectPercentile(gaps, 99)) / 1e6, std::log(100), 0.1);
  EXPECT_EQ(MakeArrivals(plan)->Next(), MakeArrivals(plan)->Next());
  ArrivalPlan other = plan;
  other.seed = 2;
  EXPECT_NE(MakeArrivals(plan)->Next(), MakeArrivals(other)->Next());
}

TEST(Schedule, IsSecondsLineByLine) {
  const auto times = ParseSchedule("# a burst\n0\n\n0.25\r\n 0.25\n1e1\n");
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(*times, ElementsAre(0, 250000000, 250000000, 10000000000));
}

TEST(Schedule, ErrorsNameTheLine) {
  const auto why = [](const char* text) {
    return std::string(ParseSchedule(text).status().message());
  };
  EXPECT_THAT(why("0\nsoon\n"), HasSubstr("line 2 is \"soon\""));
  EXPECT_THAT(why("-1\n"), HasSubstr("line 1"));
  EXPECT_THAT(why("nan\n"), HasSubstr("line 1"));
  EXPECT_THAT(why("2\n1\n"), HasSubstr("line 2 is 1, which is before"));
  EXPECT_THAT(why("# nothing\n"), HasSubstr("no time"));
}

TEST(Percentile, IsTheNearestRank) {
  std::vector<TimeNs> values;
  for (int i = 1000; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(SelectPercentile(values, 50), 500);
  EXPECT_EQ(SelectPercentile(values, 99.9), 999);
  EXPECT_EQ(SelectPercentile(values, 100), 1000);
  EXPECT_EQ(SelectPercentile(values, 0), 1);
  std::vector<TimeNs> none;
  EXPECT_EQ(SelectPercentile(none, 50), 0);
}

}  // namespace
}  // namespace gemmd::load
