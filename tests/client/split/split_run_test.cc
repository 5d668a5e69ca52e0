#include "client/split/split_run.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kNever = absl::InfiniteDuration();

absl::Duration Ms(int milliseconds) { return absl::Milliseconds(milliseconds); }

SplitRun RunOf(int parts, const HedgePolicy& policy = {}) {
  std::vector<RowRange> rows;
  std::vector<std::string> servers;
  for (int i = 0; i < parts; ++i) {
    const auto begin = static_cast<std::uint64_t>(i) * 128;
    rows.push_back({begin, begin + 128});
    servers.push_back(absl::StrCat("s", i));
  }
  return {policy, rows, servers};
}

TEST(SplitRunTest, EachPartGoesToAServerOfItsOwn) {
  SplitRun run = RunOf(3);
  const SplitRun::Actions actions = run.Start(Ms(0));
  ASSERT_THAT(actions.begins, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    const SplitRun::Begin& begin = actions.begins[static_cast<std::size_t>(i)];
    EXPECT_EQ(begin.part, static_cast<std::size_t>(i));
    EXPECT_EQ(begin.first, absl::StrCat("s", i));
    EXPECT_THAT(begin.avoided, IsEmpty());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(run.is_over());
    EXPECT_TRUE(run.IsWanted(i));
    const SplitRun::Actions next = run.Succeed(i, {absl::StrCat("s", i), "id"}, Ms(10));
    EXPECT_THAT(next.begins, IsEmpty());
    EXPECT_THAT(next.cancels, IsEmpty());
    EXPECT_FALSE(run.IsWanted(i));
  }
  EXPECT_TRUE(run.is_over());
  EXPECT_TRUE(run.status().ok());
}

TEST(SplitRunTest, ALatePartIsHedgedAtTheFirstThatEnded) {
  SplitRun run = RunOf(4);
  run.Start(Ms(0));
  EXPECT_EQ(run.next_wake(), kNever);
  run.Succeed(2, {"s2", "id"}, Ms(100));
  EXPECT_EQ(run.next_wake(), kNever);  // fewer than half have ended
  run.Succeed(0, {"s0", "id"}, Ms(200));
  EXPECT_EQ(run.next_wake(), Ms(400));
  EXPECT_THAT(run.Wake(Ms(399)).begins, IsEmpty());
  run.Succeed(1, {"s1", "id"}, Ms(399));
  EXPECT_EQ(run.next_wake(), Ms(400));  // twice the median, which is that of 100, 200 and 399
  const SplitRun::Actions hedge = run.Wake(Ms(400));
  ASSERT_THAT(hedge.begins, SizeIs(1));
  EXPECT_EQ(hedge.begins[0].part, 3u);
  EXPECT_EQ(hedge.begins[0].first, "s2");
  EXPECT_THAT(hedge.begins[0].avoided, ElementsAre("s3"));
  EXPECT_TRUE(run.parts()[3].is_hedged);
  EXPECT_EQ(run.next_wake(), kNever);  // once a part
  const int second = hedge.begins[0].attempt;
  const SplitRun::Actions end = run.Succeed(second, {"s2", "id"}, Ms(500));
  EXPECT_THAT(end.cancels, ElementsAre(3));
  EXPECT_FALSE(run.IsWanted(3));
  EXPECT_EQ(run.parts()[3].winner, second);
  EXPECT_FALSE(run.is_over());
  // The late answer comes after all, and is nobody's.
  run.Succeed(3, {"s3", "other"}, Ms(501));
  EXPECT_TRUE(run.is_over());
  EXPECT_TRUE(run.status().ok());
  EXPECT_EQ(run.parts()[3].answer.server, "s2");
}

TEST(SplitRunTest, TheFirstAnswerCancelsTheHedge) {
  SplitRun run = RunOf(2);
  run.Start(Ms(0));
  run.Succeed(1, {"s1", "id"}, Ms(1));
  EXPECT_EQ(run.next_wake(), Ms(50));  // short parts are left in peace
  const int second = run.Wake(Ms(50)).begins.at(0).attempt;
  EXPECT_THAT(run.Succeed(0, {"s0", "id"}, Ms(60)).cancels, ElementsAre(second));
  run.Fail(second, absl::CancelledError(), Ms(61));
  EXPECT_TRUE(run.is_over());
  EXPECT_TRUE(run.status().ok());
  EXPECT_EQ(run.parts()[0].winner, 0);
}

TEST(SplitRunTest, NoMorePartsAreHedgedThanTheShareSays) {
  for (const auto& [parts, most] : std::map<int, int>{{1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}}) {
    SplitRun run = RunOf(parts);
    run.Start(Ms(0));
    int ended = (parts + 1) / 2;
    for (int i = 0; i < ended && i < parts; ++i) run.Succeed(i, {"s", "id"}, Ms(10));
    int hedged = 0;
    for (int i = 1; i < 10; ++i) hedged += static_cast<int>(run.Wake(absl::Hours(i)).begins.size());
    EXPECT_EQ(hedged, std::min(most, parts - ended)) << parts;
  }
  HedgePolicy never;
  never.most_parts = 0;
  SplitRun run = RunOf(2, never);
  run.Start(Ms(0));
  run.Succeed(0, {"s0", "id"}, Ms(1));
  EXPECT_EQ(run.next_wake(), kNever);
}

TEST(SplitRunTest, AnErrorEndsTheOthersAndSaysWhichRows) {
  SplitRun run = RunOf(3);
  run.Start(Ms(0));
  run.Succeed(0, {"s0", "id"}, Ms(1));
  absl::Status why = absl::InvalidArgumentError("b.rows is 3");
  MarkServer("s1", why);
  EXPECT_THAT(run.Fail(1, why, Ms(2)).cancels, ElementsAre(2));
  EXPECT_FALSE(run.is_over());
  EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(run.status().message(), "rows 128 to 256 of D: b.rows is 3");
  EXPECT_EQ(ServerOf(run.status()), "s1");
  EXPECT_EQ(run.next_wake(), kNever);
  EXPECT_THAT(run.Fail(2, absl::CancelledError(), Ms(3)).cancels, IsEmpty());
  EXPECT_TRUE(run.is_over());
  EXPECT_EQ(run.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SplitRunTest, OneOfTwoAttemptsMayFail) {
  for (const bool hedge_fails : {false, true}) {
    SplitRun run = RunOf(2);
    run.Start(Ms(0));
    run.Succeed(1, {"s1", "id"}, Ms(1));
    const int second = run.Wake(Ms(50)).begins.at(0).attempt;
    const int fails = hedge_fails ? second : 0;
    EXPECT_THAT(run.Fail(fails, absl::UnavailableError("away"), Ms(60)).cancels, IsEmpty());
    EXPECT_TRUE(run.status().ok());
    run.Succeed(hedge_fails ? 0 : second, {"s1", "id"}, Ms(70));
    EXPECT_TRUE(run.is_over());
    EXPECT_TRUE(run.status().ok());
  }
}

TEST(SplitRunTest, RowsOfAnotherNumericsIdAreComputedAnewWhereTheOthersWere) {
  SplitRun run = RunOf(3);
  run.Start(Ms(0));
  run.Succeed(0, {"s0", "odd"}, Ms(1));
  run.Succeed(1, {"s1", "id"}, Ms(2));
  const SplitRun::Actions actions = run.Succeed(2, {"s2", "id"}, Ms(3));
  ASSERT_THAT(actions.begins, SizeIs(1));
  EXPECT_EQ(actions.begins[0].part, 0u);
  EXPECT_EQ(actions.begins[0].first, "s1");
  EXPECT_THAT(actions.begins[0].avoided, ElementsAre("s0"));
  EXPECT_FALSE(run.is_over());
  run.Succeed(actions.begins[0].attempt, {"s1", "id"}, Ms(4));
  EXPECT_TRUE(run.is_over());
  EXPECT_TRUE(run.status().ok());
  EXPECT_EQ(run.parts()[0].repeats, 1);
  EXPECT_EQ(run.parts()[0].answer.server, "s1");
}

TEST(SplitRunTest, OfTwoIdsAsFrequentThatOfTheFirstRowsStays) {
  SplitRun run = RunOf(2);
  run.Start(Ms(0));
  run.Succeed(1, {"s1", "b"}, Ms(1));
  const SplitRun::Actions actions = run.Succeed(0, {"s0", "c"}, Ms(2));
  ASSERT_THAT(actions.begins, SizeIs(1));
  EXPECT_EQ(actions.begins[0].part, 1u);
  EXPECT_EQ(actions.begins[0].first, "s0");
}

TEST(SplitRunTest, ANumericsIdThatStaysAnotherIsRefused) {
  SplitRun run = RunOf(3);
  run.Start(Ms(0));
  run.Succeed(0, {"s0", "id"}, Ms(1));
  run.Succeed(2, {"s2", "id"}, Ms(1));
  int attempt = 1;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const SplitRun::Actions again = run.Succeed(attempt, {"s1", "odd"}, Ms(2));
    ASSERT_THAT(again.begins, SizeIs(1));
    attempt = again.begins[0].attempt;
  }
  EXPECT_THAT(run.Succeed(attempt, {"s1", "odd"}, Ms(3)).begins, IsEmpty());
  EXPECT_TRUE(run.is_over());
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(run.status().message()),
              HasSubstr("rows 128 to 256 of D have numerics id \"odd\" of s1, and others \"id\""));
}

// Random servers: some answer late, fail or compute otherwise. Whatever happens, it ends, each
// attempt that began ends once, and an answer without an error has one numerics id.
TEST(SplitRunTest, RandomHistoriesEndAndHaveOneNumericsId) {
  std::mt19937 random(20261130);
  const auto chance = [&random](int percent) { return static_cast<int>(random() % 100) < percent; };
  int refused = 0;
  int hedged = 0;
  int repeated = 0;
  for (int history = 0; history < 2000; ++history) {
    const int parts = 1 + static_cast<int>(random() % 6);
    SplitRun run = RunOf(parts);
    std::vector<int> open;
    int begun = 0;
    const auto take = [&](const SplitRun::Actions& actions) {
      for (const SplitRun::Begin& begin : actions.begins) {
        EXPECT_EQ(begin.attempt, begun++);
        open.push_back(begin.attempt);
      }
      for (const int cancelled : actions.cancels) EXPECT_FALSE(run.IsWanted(cancelled));
    };
    take(run.Start(Ms(0)));
    int now = 0;
    for (int step = 0; step < 1000 && !open.empty(); ++step) {
      now += static_cast<int>(random() % 100);
      if (run.next_wake() <= Ms(now)) take(run.Wake(Ms(now)));
      const std::size_t place = random() % open.size();
      const int attempt = open[place];
      if (chance(50)) continue;
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(place));
      if (!run.IsWanted(attempt) && chance(70)) {
        take(run.Fail(attempt, absl::CancelledError(), Ms(now)));
      } else if (chance(3)) {
        take(run.Fail(attempt, absl::InternalError("no"), Ms(now)));
      } else {
        take(
            run.Succeed(attempt, {absl::StrCat("s", attempt), chance(20) ? "odd" : "id"}, Ms(now)));
      }
      EXPECT_EQ(run.is_over(), open.empty());
    }
    ASSERT_TRUE(run.is_over());
    int hedges = 0;
    for (const SplitRun::Part& part : run.parts()) {
      hedges += part.is_hedged ? 1 : 0;
      repeated += part.repeats;
      if (!run.status().ok()) continue;
      EXPECT_GE(part.winner, 0);
      EXPECT_EQ(part.answer.numerics_id, run.parts().front().answer.numerics_id);
    }
    EXPECT_LE(2 * hedges, parts);
    hedged += hedges;
    if (!run.status().ok()) ++refused;
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(hedged, 50);
  EXPECT_GT(repeated, 50);
}

}  // namespace
}  // namespace gemmd::client
