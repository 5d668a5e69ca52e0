// Two runs side by side: resamples, intervals, and what they show.
#include <algorithm>
#include <cmath>

#include "base/time/units.h"
#include "client/load/random.h"
#include "client/load/report/conditions.h"
#include "client/load/report/diff.h"
#include "client/load/results/resample.h"
#include "client/load/results/turns.h"
#include "gmock/gmock.h"
#include "tests/client/load/sample_report.h"

namespace gemmd::load {
namespace {

using ::gemmd::testing::SampleReport;
using ::gemmd::testing::Simulation;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoadOptions Load() {
  LoadOptions options;
  options.concurrency = 4;
  options.duration_ns = 5 * kSecond;
  return options;
}

// Answers after an exponential time of that mean.
LoadRun Served(double mean_ms, std::uint64_t seed) {
  Random random(seed);
  Simulation simulation([&random, mean_ms](const Request&, TimeNs) {
    const double ms = 0.01 + mean_ms * random.Exponential();
    return Simulation::Answer{static_cast<TimeNs>(ms * 1e6), {}};
  });
  return *GenerateLoad(Load(), {1}, simulation, simulation);
}

Json PointOf(const LoadRun& run) {
  const std::vector<EntryCost> costs = {EntryCost{1000, 500, 1e6}};
  return PointJson(Load(), run, Summarize(run, costs), {}, {"entry"}, Resample(run, costs));
}

Json ReportOf(const LoadRun& run) {
  return {{"format", kReportFormat},
          {"format_version", kReportVersion},
          {"points", Json::array({PointOf(run)})}};
}

const Change& Of(const char* figure, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (change.figure->name == figure) return change;
  }
  ADD_FAILURE() << "no change of " << figure;
  return changes[0];
}

TEST(Resample, HasAnIntervalAroundEachFigure) {
  const LoadRun run = Served(2, 1);
  const std::vector<EntryCost> costs = {EntryCost{1000, 500, 1e6}};
  const Summary summary = Summarize(run, costs);
  Resamples resamples = Resample(run, costs);
  EXPECT_EQ(resamples.blocks, 20U);
  const auto expect = [&resamples](const char* figure, double value, double within) {
    std::vector<double>& values = resamples.figures[figure];
    ASSERT_EQ(values.size(), kResamples) << figure;
    std::sort(values.begin(), values.end());
    EXPECT_LE(values[7], value * 1.001) << figure;
    EXPECT_GE(values[292] * 1.001, value) << figure;
    EXPECT_LT(values[292] / values[7] - 1, within) << figure;
  };
  expect("throughput", summary.requests_per_s, 0.1);
  expect("gb/s", summary.gb_per_s, 0.1);
  expect("mean", summary.latency.mean_us, 0.1);
  expect("p50", summary.latency.p50_us, 0.1);
  expect("p95", summary.latency.p95_us, 0.2);
  expect("p99.9", summary.latency.p999_us, 1);
}

TEST(Resample, BlocksThatAreAlikeHaveTheRunsPercentiles) {
  // In each of 20 seconds a request is due every 50 ms, and the nth is answered after n ms.
  LoadRun run;
  run.end_ns = 20 * kSecond;
  for (TimeNs i = 0; i < 400; ++i) {
    Sample sample;
    sample.intended_ns = i * kSecond / 20;
    sample.completed_ns = sample.intended_ns + (1 + i % 20) * kSecond / 1000;
    run.samples.push_back(sample);
  }
  Resamples resamples = Resample(run, {{}});
  ASSERT_EQ(resamples.blocks, 20U);
  EXPECT_THAT(resamples.figures["p50"], Each(10e3));
  EXPECT_THAT(resamples.figures["p90"], Each(18e3));
  EXPECT_THAT(resamples.figures["p95"], Each(19e3));
  EXPECT_THAT(resamples.figures["p99"], Each(20e3));
}

TEST(Resample, IsTheSameForTheSameRunAndNothingForAFew) {
  const LoadRun run = Served(2, 1);
  EXPECT_EQ(Resample(run, {{}}).figures, Resample(run, {{}}).figures);
  LoadRun few;
  few.end_ns = kSecond;
  few.samples.resize(4 * kLeastBlocks - 1);
  EXPECT_EQ(Resample(few, {{}}).blocks, 0U);
  few.samples.emplace_back();
  EXPECT_EQ(Resample(few, {{}}).blocks, kLeastBlocks);
}

TEST(Comparison, TheNoiseOfTwoRunsIsNoDifference) {
  const Json calm = ReportOf(Served(2, 1));
  for (const std::uint64_t seed : {2, 3, 4}) {
    const ReportDiff diff = DiffReports(calm, ReportOf(Served(2, seed)));
    for (const Change& change : diff.changes) {
      if (change.figure->is_one_request() || change.figure->kind == FigureKind::kShare) continue;
      ASSERT_TRUE(change.interval.has_value()) << change.figure->name;
      EXPECT_FALSE(change.worse(0.05))
          << seed << " " << change.figure->name << IntervalText(change);
      EXPECT_FALSE(change.better(0.05)) << seed << " " << change.figure->name;
    }
  }
}

TEST(Comparison, ADifferenceIsShownWithItsInterval) {
  const ReportDiff diff = DiffReports(ReportOf(Served(2, 1)), ReportOf(Served(3, 2)));
  for (const char* figure : {"throughput", "mean", "p50", "p90", "p99"}) {
    const Change& change = Of(figure, diff.changes);
    EXPECT_EQ(change.verdict(0.05), "worse") << figure;
    EXPECT_LE(change.interval->low, change.relative()) << figure;
    EXPECT_GE(change.interval->high, change.relative()) << figure;
  }
  EXPECT_NEAR(Of("mean", diff.changes).relative(), 0.5, 0.1);
  // Beyond the interval, and yet within the threshold.
  EXPECT_EQ(Of("mean", diff.changes).verdict(0.9), "");
}

TEST(Comparison, ConditionsOfChangesLookAtTheInterval) {
  const ReportDiff worse = DiffReports(ReportOf(Served(2, 1)), ReportOf(Served(3, 2)));
  const auto why = [](const char* text, const ReportDiff& diff) {
    const Condition condition = (*ParseConditions(text, true))[0];
    return WhyFails(condition, Of(condition.figure->name.data(), diff.changes));
  };
  EXPECT_THAT(why("p50>+10%", worse), HasSubstr("and p50>+10% fails"));
  EXPECT_EQ(why("p50>+90%", worse), "");
  EXPECT_THAT(why("throughput<-5%", worse), HasSubstr("throughput is -3"));
  EXPECT_THAT(why("p50>1us", worse), HasSubstr("and p50>1us fails"));
  ReportDiff same = DiffReports(ReportOf(Served(2, 1)), ReportOf(Served(2, 2)));
  for (Change& change : same.changes) {
    if (change.figure->name != "p99.9") continue;
    change.after = change.before * 1.2;
    change.interval = Interval{-0.1, 0.4};
  }
  EXPECT_EQ(why("p99.9>+10%", same), "");
}

TEST(Comparison, SharesDifferByPoints) {
  Json before = ReportOf(Served(2, 1));
  before["points"][0]["requests"] = before["points"][0]["ok"] = 10000;
  Json after = before;
  after["points"][0]["ok"] = 5000;
  for (Json* report : {&before, &after}) (*report)["points"][0].erase("resamples");
  const Change change = Of("failed", DiffReports(before, after).changes);
  EXPECT_EQ(change.text(), "+50.00 points");
  EXPECT_TRUE(change.worse(0.05));  // none before: any is
  const Condition condition = (*ParseConditions("failed>+49%", true))[0];
  EXPECT_THAT(WhyFails(condition, change), HasSubstr("+50.00 points"));
}

TEST(Comparison, ReportsWithoutResamplesAreComparedByTheThreshold) {
  Json before = SampleReport(1);
  Json after = before;
  after["points"][0]["latency_us"]["p99"] =
      12 * after["points"][0]["latency_us"]["p99"].get<double>();
  before["points"][0]["latency_us"].erase("p95");
  const ReportDiff diff = DiffReports(before, after);
  EXPECT_EQ(diff.changes.size(), 10U);  // all but p95
  EXPECT_EQ(Of("p99", diff.changes).verdict(0.05), "worse");
  EXPECT_EQ(IntervalText(Of("p99", diff.changes)), "");
}

TEST(Comparison, RepeatsTheWarningsOfBothReports) {
  Json before = SampleReport(1);
  Json after = before;
  before["points"][0]["warnings"] = {"it was noisy"};
  after["points"][0]["warnings"] = {"not stable"};
  EXPECT_THAT(
      DiffReports(before, after).warnings,
      ElementsAre("before, concurrency 1: it was noisy", "after, concurrency 1: not stable"));
}

TEST(Comparison, ReadsNoResamplesThatAreNoNumbers) {
  Json report = ReportOf(Served(2, 1));
  EXPECT_TRUE(ParseReport(report.dump()).ok());
  report["points"][0]["resamples"]["figures"]["p50"][3] = "4";
  EXPECT_THAT(std::string(ParseReport(report.dump()).status().message()), HasSubstr("resamples"));
  report["points"][0]["resamples"] = 3;
  EXPECT_THAT(std::string(ParseReport(report.dump()).status().message()), HasSubstr("no report"));
}

// A machine that grows slower by a half in every turn of either hides nothing where turns are
// compared with those beside them.
TEST(Comparison, TurnsOfOneRoundAreComparedWithEachOther) {
  std::vector<LoadRun> old;
  std::vector<LoadRun> young;
  double mean_ms = 1;
  for (std::uint64_t round = 0; round < 8; ++round, mean_ms *= 1.5) {
    old.push_back(Served(mean_ms, 2 * round));
    young.push_back(Served(mean_ms * 1.15, 2 * round + 1));
  }
  const Json before = PointOf(Join(std::move(old)));
  const Json after = PointOf(Join(std::move(young)));
  const Change paired = Of("throughput", ComparePoints(before, after, true));
  EXPECT_EQ(paired.verdict(0), "worse") << IntervalText(paired);
  EXPECT_NEAR(paired.relative(), 1 / 1.15 - 1, 0.03);
  const Change apart = Of("throughput", ComparePoints(before, after, false));
  EXPECT_TRUE(apart.is_hidden()) << IntervalText(apart);
}

TEST(Turns, ATimeIsInTheTurnThatHasBegunAndNotEnded) {
  const std::vector<Turn> turns = {{10, 20}, {20, 25}, {30, 40}};
  EXPECT_EQ(FindTurn(turns, 9), 3U);
  EXPECT_EQ(FindTurn(turns, 10), 0U);
  EXPECT_EQ(FindTurn(turns, 20), 1U);
  EXPECT_EQ(FindTurn(turns, 25), 3U);
  EXPECT_EQ(FindTurn(turns, 39), 2U);
  EXPECT_EQ(FindTurn(turns, 40), 3U);
}

TEST(Turns, AJoinedRunHasTheFiguresOfItsTurnsAndNoWarmUps) {
  std::vector<LoadRun> runs = {Served(2, 1), Served(4, 2)};
  const Summary first = Summarize(runs[0], {{}});
  const Summary second = Summarize(runs[1], {{}});
  runs[1].ended_early = "it was interrupted";
  runs[1].pauses = {{kSecond / 2, 2 * kSecond}};  // half a second before the warm-up's end
  const LoadRun joined = Join(std::move(runs));
  const Summary both = Summarize(joined, {{}});
  EXPECT_EQ(both.requests, first.requests + second.requests);
  EXPECT_EQ(both.ok, first.ok + second.ok);
  EXPECT_DOUBLE_EQ(both.seconds, 10);
  EXPECT_NEAR(both.requests_per_s, (first.requests_per_s + second.requests_per_s) / 2, 1e-6);
  EXPECT_EQ(both.latency.max_us, std::max(first.latency.max_us, second.latency.max_us));
  EXPECT_EQ(joined.ended_early, "it was interrupted");
  EXPECT_DOUBLE_EQ(both.paused_s, 1);
}

}  // namespace
}  // namespace gemmd::load
