// A run takes the time that its parts add up to, and accounts for every clock of every pair.
#include "kernels/workshop/model/simulation.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "kernels/workshop/model/evaluation.h"
#include "kernels/workshop/model/ladder.h"
#include "kernels/workshop/model/wave_breaking.h"

namespace gemmd::model {
namespace {

// One on which nothing but the tensor core takes time.
Machine Ideal() {
  Machine machine;
  machine.dies = 1;
  machine.port_bytes_per_clock = 1e12;
  machine.shared_bytes_per_clock = 1e12;
  machine.memory_bytes_per_second = 1e24;
  machine.columns_read_per_clock = 1e12;
  machine.l2_latency = 0;
  machine.memory_latency = 0;
  machine.producer_clocks = 0;
  return machine;
}

double SumOf(const Spent& spent) {
  return spent.tensor + spent.shared + spent.issue + spent.port + spent.memory + spent.accumulator +
         spent.fill + spent.waves + spent.drain;
}

Result RunOf(const Machine& machine, int step, int side) {
  return Simulate(machine, ShapeOf(step, side), {side, side, side},
                  ScheduleOf(step, side, machine));
}

TEST(Simulation, OneSlabTakesFillProductAndEpilogue) {
  Machine machine;
  machine.multiprocessors = 2;
  machine.dies = 1;
  const KernelShape shape = ShapeOf(1, 256);
  const Result result = Simulate(machine, shape, {256, 256, 128},
                                 Persistent(OrderedTiles(shape, {256, 256, 128}), machine.Pairs()));
  const double loaded = 2.0 * 256 * (128 + 4);
  const double fill =
      loaded / machine.MemoryBytesPerClock() + machine.memory_latency + machine.l2_latency + 536;
  // 256 columns, each read in a clock and stored as 512 bytes.
  EXPECT_NEAR(result.clocks, fill + 536 + 256 * (1 + 8), 1e-6);
  EXPECT_NEAR(result.spent.fill, fill, 1e-6);
  EXPECT_NEAR(result.spent.tensor, 512, 1e-6);
  EXPECT_NEAR(result.spent.shared, 24, 1e-6);
  EXPECT_EQ(result.traffic.from_memory, loaded);
  EXPECT_EQ(result.traffic.to_memory, 256 * 256 * 4);
}

TEST(Simulation, EveryClockOfEveryPairIsAccountedFor) {
  const Machine machine;
  for (const int side : {2048, 4096}) {
    for (int step = 0; step < kSteps; ++step) {
      const Result result = RunOf(machine, step, side);
      EXPECT_NEAR(SumOf(result.spent), result.clocks * machine.Pairs(), 1e-6 * result.clocks);
    }
    for (const Variant& variant : Variants(machine, side)) {
      EXPECT_NEAR(SumOf(variant.result.spent), variant.result.clocks * machine.Pairs(),
                  1e-6 * variant.result.clocks)
          << variant.name;
    }
  }
}

TEST(Simulation, WithoutOtherLimitsItIsTheCountOfWaves) {
  const Machine machine = Ideal();
  const double wave = 32 * 512;  // a tile of 256x256 over 4096 of K
  for (const Variant& variant : Variants(machine, 4096)) {
    // Stream-K's parts are whole slabs: at most one more than the mean.
    EXPECT_NEAR(variant.result.clocks / wave, variant.tensor_waves, 1.01 / 32) << variant.name;
    EXPECT_GE(variant.result.clocks / wave, variant.tensor_waves - 1e-6) << variant.name;
  }
}

TEST(Simulation, LessOfAnythingNeverHelps) {
  const Machine machine;
  const double before = RunOf(machine, 9, 4096).clocks;
  std::vector<Machine> worse(6, machine);
  worse[0].port_bytes_per_clock /= 2;
  worse[1].shared_bytes_per_clock /= 2;
  worse[2].memory_bytes_per_second /= 16;
  worse[3].columns_read_per_clock /= 4;
  worse[4].memory_latency *= 4;
  worse[5].link_bytes_per_second /= 16;
  for (std::size_t at = 0; at < worse.size(); ++at) {
    EXPECT_GT(RunOf(worse[at], 9, 4096).clocks, before) << at;
  }
}

TEST(Simulation, MoreSharedColumnsMakeProductsWaitLonger) {
  const Machine machine;
  const Result wide = RunOf(machine, 10, 4096);
  const Result narrow = RunOf(machine, 11, 4096);
  EXPECT_GT(wide.spent.accumulator, 0);
  EXPECT_NEAR(narrow.spent.accumulator, wide.spent.accumulator / 2, wide.spent.accumulator / 100);
}

TEST(Simulation, MulticastScalesAreAskedForOnce) {
  const Machine machine;
  const double twice = RunOf(machine, 3, 2048).traffic.read;
  const double once = RunOf(machine, 4, 2048).traffic.read;
  // 64 tiles, 16 slabs, 256 lines of 4 bytes.
  EXPECT_EQ(twice - once, 64 * 16 * 256 * 4);
}

TEST(Simulation, AThreadThatIssuesSlowlyBindsIt) {
  Machine machine;
  const double before = RunOf(machine, 3, 4096).clocks;
  machine.issue_clocks = 1;
  EXPECT_EQ(RunOf(machine, 3, 4096).clocks, before)
      << "296 clocks a stage, less than products take";
  machine.issue_clocks = 20;
  const Result slow = RunOf(machine, 3, 4096);
  // A pair has at most four tiles of 16 stages.
  EXPECT_GT(slow.clocks, 4 * 16 * 296 * 20);
  EXPECT_GT(slow.spent.issue, slow.spent.tensor);
  EXPECT_LT(RunOf(machine, 13, 4096).clocks, RunOf(machine, 12, 4096).clocks * 0.6);
}

TEST(Simulation, TheCostOfAnInstructionIsThatOfStepsZeroAndOne) {
  const double least = FitError(kFittedIssueClocks);
  EXPECT_LT(least, FitError(kFittedIssueClocks - 0.1));
  EXPECT_LT(least, FitError(kFittedIssueClocks + 0.1));
}

TEST(Simulation, IsTheSameEveryTime) {
  const Machine machine;
  EXPECT_EQ(RunOf(machine, 6, 4096).clocks, RunOf(machine, 6, 4096).clocks);
}

}  // namespace
}  // namespace gemmd::model
