#include "kernels/workshop/bench/protocol.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/workshop/bench/fake_machine.h"

namespace gemmd::bench {
namespace {

std::vector<Timing> TimeTwo(FakeMachine* machine, const FakeMachine::Contender& x,
                            const FakeMachine::Contender& y, std::uint64_t seed) {
  machine->rivals = {x, y};
  EXPECT_TRUE(machine->AddRivals(cublaslt::Arithmetic::kF16, 1).ok());
  std::mt19937_64 order(seed);
  return TimeAll(2, Protocol(), &order, machine);
}

TEST(Statistics, MedianSpreadAndGeometricMean) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  const Summary summary = Summarize({2, 1, 4});
  EXPECT_EQ(summary.median, 2);
  EXPECT_EQ(summary.spread(), 1.5);
  EXPECT_DOUBLE_EQ(GeometricMean({0.5, 2, 8}), 2);
}

// The hot contender runs at 80 % of the clock; whoever followed it in a fixed order would seem
// slow.
TEST(Protocol, SustainedFiguresDoNotDependOnWhoRanBefore) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    FakeMachine machine;
    const std::vector<Timing> timings = TimeTwo(&machine, {1, 0.2}, {1, 0}, seed);
    EXPECT_NEAR(timings[0].sustained_ms.median, 1 / 0.8, 0.01);
    EXPECT_NEAR(timings[1].sustained_ms.median, 1, 0.01);
  }
}

TEST(Protocol, ABurstStartsAtFullClock) {
  FakeMachine machine;
  const std::vector<Timing> timings = TimeTwo(&machine, {0.1, 0.2}, {0.1, 0}, 3);
  EXPECT_NEAR(timings[0].burst_ms.median, 0.1, 0.003);
  EXPECT_NEAR(timings[1].burst_ms.median, 0.1, 0.001);
  EXPECT_EQ(machine.idle_ms, 2 * 5 * 30);
}

TEST(Protocol, EveryRoundHasEveryContenderInAnOrderOfItsOwn) {
  FakeMachine machine;
  TimeTwo(&machine, {20, 0}, {20, 0}, 5);
  // After two times three calls of preparation: rounds of two calls each, sustained.
  std::set<std::vector<int>> orders;
  for (std::size_t i = 6; i < 6 + 5 * 4; i += 4) {
    EXPECT_EQ(machine.timed[i], machine.timed[i + 1]) << "a slice is preceded by one of its own";
    EXPECT_NE(machine.timed[i], machine.timed[i + 2]);
    orders.insert({machine.timed[i], machine.timed[i + 2]});
  }
  EXPECT_EQ(orders.size(), 2u) << "both orders occur";
}

TEST(Protocol, ClocksAreThoseOfTheSustainedSlices) {
  FakeMachine machine;
  const std::vector<Timing> timings = TimeTwo(&machine, {1, 0.2}, {1, 0}, 7);
  EXPECT_NEAR(timings[0].sm_mhz, 1600, 10);
  EXPECT_NEAR(timings[1].sm_mhz, 2000, 20);
  EXPECT_EQ(timings[0].watts, 700);
}

TEST(Protocol, OneThatFailsDropsOutAndSaysWhy) {
  FakeMachine machine;
  FakeMachine::Contender failing;
  failing.fails_after = 4;
  const std::vector<Timing> timings = TimeTwo(&machine, failing, {1, 0}, 9);
  EXPECT_EQ(timings[0].error, "an illegal instruction");
  EXPECT_EQ(timings[1].error, "");
  EXPECT_NEAR(timings[1].burst_ms.median, 1, 0.01);
}

TEST(Protocol, LaunchesFillTheTimeAndAreAtLeastTwo) {
  EXPECT_EQ(LaunchesFor(100, 2), 50);
  EXPECT_EQ(LaunchesFor(3, 15), 2);
  EXPECT_EQ(LaunchesFor(100, 0), 1 << 16);
}

TEST(Search, FindsTheQuickestThatWorks) {
  FakeMachine machine;
  machine.rivals = {{2, 0}, {1, 0}, {0.5, 0, 1}, {1.5, 0}};
  ASSERT_TRUE(machine.AddRivals(cublaslt::Arithmetic::kF16, 1).ok());
  const std::vector<SearchResult> results = Search(4, 1e9, &machine);
  EXPECT_EQ(results[2].error, "an illegal instruction");
  EXPECT_NEAR(results[1].median_ms, 1, 0.01);
  EXPECT_EQ(Quickest(results, 2), (std::vector<int>{1, 3}));
}

}  // namespace
}  // namespace gemmd::bench
