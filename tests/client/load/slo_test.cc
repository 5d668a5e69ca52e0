#include "client/load/results/slo.h"

#include "base/time/units.h"
#include "gmock/gmock.h"
#include "tests/client/load/simulation.h"

namespace gemmd::load {
namespace {

using ::gemmd::testing::OneByOne;
using ::gemmd::testing::Simulation;
using ::testing::HasSubstr;

Summary Measure(double rate_per_s, Simulation::Script script) {
  Simulation simulation(std::move(script));
  LoadOptions options;
  options.arrivals.emplace();
  options.arrivals->kind = ArrivalKind::kConstant;
  options.arrivals->rate_per_s = rate_per_s;
  options.duration_ns = 5 * kSecond;
  options.sending_threads = 0;
  return Summarize(*GenerateLoad(options, {1}, simulation, simulation), {EntryCost()});
}

TEST(Slo, ReadsWhatPeopleWrite) {
  const absl::StatusOr<Slo> slo = ParseSlo("p99=5ms,errors=0.1%,p99.9=1s");
  ASSERT_TRUE(slo.ok()) << slo.status();
  EXPECT_EQ(slo->limits.size(), 2U);
  EXPECT_EQ(slo->limits[0].limit_us, 5000);
  EXPECT_EQ(slo->limits[1].name, "p99.9");
  EXPECT_DOUBLE_EQ(slo->error_share, 0.001);
  for (const char* text : {"", "p98=1ms", "p99", "p99=5", "p99=-1ms", "errors=1%",
                           "errors=x,p50=1s", "p99=1ms,errors=100%"}) {
    EXPECT_FALSE(ParseSlo(text).ok()) << text;
  }
}

TEST(Slo, SaysWhichObjectiveIsMissed) {
  const Summary calm = Measure(100, OneByOne(2000000));
  EXPECT_EQ(WhyMissed(*ParseSlo("p99=2ms,mean=2ms"), calm), "");
  EXPECT_THAT(WhyMissed(*ParseSlo("p50=1500us"), calm),
              HasSubstr("p50 is 2.000 ms, at most 1.500"));
  EXPECT_THAT(WhyMissed(*ParseSlo("p50=1s"), Summary()), HasSubstr("no request was due"));
  const Summary failing = Measure(100, [](const Request& request, TimeNs) {
    Simulation::Answer answer{1000, {}};
    if (request.index % 10 == 0) answer.reply.code = absl::StatusCode::kInternal;
    return answer;
  });
  EXPECT_THAT(WhyMissed(*ParseSlo("p50=1s"), failing), HasSubstr("10% not answered with OK"));
  EXPECT_EQ(WhyMissed(*ParseSlo("p50=1s,errors=10%"), failing), "");
}

TEST(RateSearch, FindsTheKneeOfAServerOfKnownCapacity) {
  for (const double first_per_s : {10.0, 100000.0}) {
    RateSearch search(first_per_s, 0.05, 40);
    while (const auto rate = search.Next()) {
      search.Report(WhyPastKnee(Measure(*rate, OneByOne(1000000)), 0).empty());
    }
    ASSERT_TRUE(search.best() && search.broken());
    EXPECT_NEAR(*search.best() / 1000, 1, 0.05);  // one request a millisecond
    EXPECT_LE(*search.broken(), *search.best() * 1.05);
  }
}

TEST(RateSearch, FindsTheHighestRateWithinAnSlo) {
  // Answers in rate/100 ms: 5 ms at 500/s.
  const Slo slo = *ParseSlo("p99=5ms");
  RateSearch search(100, 0.02, 40);
  while (const auto rate = search.Next()) {
    const auto delay_ns = static_cast<TimeNs>(*rate * 10000);
    search.Report(WhyMissed(slo, Measure(*rate,
                                         [delay_ns](const Request&, TimeNs) {
                                           return Simulation::Answer{delay_ns, {}};
                                         }))
                      .empty());
  }
  EXPECT_NEAR(*search.best() / 500, 1, 0.02);
}

TEST(RateSearch, EndsWhereNothingHolds) {
  RateSearch search(100, 0.05, 6);
  int trials = 0;
  for (; search.Next(); ++trials) search.Report(false);
  EXPECT_EQ(trials, 6);
  EXPECT_FALSE(search.best());
}

TEST(Knee, IsPastWhereTheTailGrowsTenfold) {
  Summary summary;
  summary.ok = 1;
  summary.offered_per_s = 100;
  summary.requests_per_s = 99;
  summary.latency.p99_us = 1001;
  EXPECT_EQ(WhyPastKnee(summary, 101), "");
  EXPECT_THAT(WhyPastKnee(summary, 100), HasSubstr("above ten times"));
  summary.requests_per_s = 97;
  EXPECT_THAT(WhyPastKnee(summary, 101), HasSubstr("97.0% of the rate"));
}

}  // namespace
}  // namespace gemmd::load
