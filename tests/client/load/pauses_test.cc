// A closed loop where nobody answers.
#include "base/time/units.h"
#include "client/load/load_generator.h"
#include "client/load/report/conditions.h"
#include "client/load/report/report.h"
#include "client/load/results/summary.h"
#include "gmock/gmock.h"
#include "tests/client/load/simulation.h"

namespace gemmd::load {
namespace {

using ::gemmd::testing::Simulation;
using ::testing::Contains;
using ::testing::HasSubstr;

LoadOptions Closed(int concurrency) {
  LoadOptions options;
  options.concurrency = concurrency;
  options.warm_up_ns = 0;
  options.duration_ns = 10 * kSecond;
  return options;
}

// Answers within a tenth of a millisecond; with `code` from second 2 to second 5.
Simulation::Script AwayFor3s(absl::StatusCode code) {
  return [code](const Request&, TimeNs now_ns) {
    Simulation::Answer answer{kMillisecond / 10, {}};
    if (now_ns >= 2 * kSecond && now_ns < 5 * kSecond) answer.reply.code = code;
    return answer;
  };
}

LoadRun Generate(const LoadOptions& options, Simulation& simulation) {
  return *GenerateLoad(options, {1}, simulation, simulation);
}

TEST(Pauses, AServerThatIsAwayIsAskedAFewTimesASecondAndSoonFoundAgain) {
  Simulation simulation(AwayFor3s(absl::StatusCode::kUnavailable));
  const LoadRun run = Generate(Closed(2), simulation);
  const Summary summary = Summarize(run, {{}});
  const std::uint64_t failed = summary.errors.at("UNAVAILABLE");
  EXPECT_GE(failed, 50U);
  EXPECT_LE(failed, 80U);  // of two lanes, ten times a second each
  EXPECT_EQ(summary.pauses, failed);
  EXPECT_NEAR(summary.paused_s, 6, 0.5);  // 3 s of two
  TimeNs first_ns = 10 * kSecond;
  for (const Sample& sample : run.samples) {
    if (sample.ok() && sample.completed_ns > 5 * kSecond) {
      first_ns = std::min(first_ns, sample.completed_ns);
    }
  }
  EXPECT_LE(first_ns, 5 * kSecond + 110 * kMillisecond);
}

TEST(Pauses, ManyLanesTogetherTryAThousandTimesASecondAtMost) {
  Simulation simulation([](const Request&, TimeNs) {
    Simulation::Answer answer{kMillisecond / 10, {}};
    answer.reply.code = absl::StatusCode::kUnavailable;
    return answer;
  });
  LoadOptions options = Closed(800);
  options.warm_up_ns = 5 * kSecond;
  const Summary summary = Summarize(Generate(options, simulation), {{}});
  EXPECT_LE(summary.offered_per_s, 1080);  // all come at once, once more in ten seconds
  EXPECT_GE(summary.offered_per_s, 900);
}

TEST(Pauses, AnswersOfTheServerAreNotWaitedAfter) {
  for (const auto code :
       {absl::StatusCode::kResourceExhausted, absl::StatusCode::kInvalidArgument}) {
    Simulation simulation(AwayFor3s(code));
    const LoadRun run = Generate(Closed(1), simulation);
    EXPECT_TRUE(run.pauses.empty());
    EXPECT_NEAR(Summarize(run, {{}}).offered_per_s, 10000, 1);
  }
}

TEST(Pauses, APauseBeginsShortAgainAfterAnAnswer) {
  // Every other request fails.
  Simulation simulation([](const Request& request, TimeNs) {
    Simulation::Answer answer{kMillisecond / 10, {}};
    if (request.index % 2 == 0) answer.reply.code = absl::StatusCode::kUnavailable;
    return answer;
  });
  const LoadRun run = Generate(Closed(1), simulation);
  ASSERT_GT(run.pauses.size(), 500U);
  for (const Turn& pause : run.pauses) EXPECT_EQ(pause.end_ns - pause.begin_ns, 10 * kMillisecond);
}

TEST(Pauses, AnOpenLoopKeepsToItsSchedule) {
  Simulation simulation(AwayFor3s(absl::StatusCode::kUnavailable));
  LoadOptions options = Closed(0);
  options.arrivals.emplace();
  options.arrivals->kind = ArrivalKind::kConstant;
  options.arrivals->rate_per_s = 100;
  options.sending_threads = 0;
  const Summary summary = Summarize(Generate(options, simulation), {{}});
  EXPECT_EQ(summary.requests, 1000U);
  EXPECT_EQ(summary.errors.at("UNAVAILABLE"), 300U);
}

TEST(Pauses, AreCountedAndShown) {
  Simulation simulation(AwayFor3s(absl::StatusCode::kUnavailable));
  const LoadOptions options = Closed(2);
  const LoadRun run = Generate(options, simulation);
  const Json point = PointJson(options, run, Summarize(run, {{}}), {}, {"entry"});
  EXPECT_EQ(point["pauses"]["count"], run.pauses.size());
  EXPECT_NEAR(point["pauses"]["share"].get<double>(), 0.3, 0.02);
  // Few of the requests failed, but for a third of the time nobody answered.
  EXPECT_LT(*ValueOf(*FindFigure("failed"), point), 0.01);
  EXPECT_NEAR(FailedShare(point), 0.3, 0.02);
  EXPECT_THAT(WhyTooManyFailed({}, point), HasSubstr("of the time passed without a server"));
  EXPECT_THAT(point["warnings"].get<std::vector<std::string>>(),
              Contains(HasSubstr("nobody answered (UNAVAILABLE)")));
}

}  // namespace
}  // namespace gemmd::load
