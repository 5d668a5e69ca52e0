// Every schedule computes each element of D over all of K once.
#include "kernels/workshop/model/schedule.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "kernels/workshop/model/wave_arithmetic.h"

namespace gemmd::model {
namespace {

constexpr int kPairs = 74;

// In how many units each 128 rows x 128 columns x 128 of K is.
std::map<std::vector<int>, int> CoverOf(const Schedule& schedule) {
  std::map<std::vector<int>, int> cover;
  for (const std::vector<WorkUnit>& units : schedule.of_pair) {
    for (const WorkUnit& unit : units) {
      for (int column = unit.column; column < unit.column + unit.columns; column += 128) {
        for (int slab = 0; slab < unit.slabs; ++slab) {
          ++cover[{unit.row, column, unit.first_slab + slab}];
        }
      }
    }
  }
  return cover;
}

void ExpectWhole(const Schedule& schedule, const Problem& problem) {
  const std::map<std::vector<int>, int> cover = CoverOf(schedule);
  const auto tiles = static_cast<std::size_t>(CeilOfRatio(problem.m, 256) *
                                              CeilOfRatio(problem.n, 256) * 2 * problem.Slabs());
  EXPECT_EQ(cover.size(), tiles);
  for (const auto& [place, times] : cover) ASSERT_EQ(times, 1) << place[0] << " " << place[1];
}

TEST(Schedule, CoversDOnceWhateverTheWay) {
  for (const TileOrder order : {TileOrder::kLinear, TileOrder::kHilbert}) {
    KernelShape shape;
    shape.order = order;
    for (const Problem& problem : {Problem{4096, 4096, 4096}, Problem{512, 1280, 256},
                                   Problem{2048, 2048, 128}, Problem{2560, 8192, 1100}}) {
      ExpectWhole(Persistent(OrderedTiles(shape, problem), kPairs), problem);
      ExpectWhole(NarrowTail(shape, problem, kPairs), problem);
      ExpectWhole(HalvesOfK(shape, problem, kPairs), problem);
      ExpectWhole(StreamK(shape, problem, kPairs), problem);
    }
  }
}

TEST(Schedule, StreamKGivesPairsEqualWorkAndCountsPartialSums) {
  const Problem problem = {4096, 4096, 4096};
  const Schedule schedule = StreamK(KernelShape{}, problem, kPairs);
  const int all = 256 * problem.Slabs();
  int partials = 0;
  int expected = 0;
  for (const std::vector<WorkUnit>& units : schedule.of_pair) {
    int slabs = 0;
    for (std::size_t at = 0; at < units.size(); ++at) {
      slabs += units[at].slabs;
      partials += units[at].output == Output::kPartial ? 1 : 0;
      expected += units[at].partial_sums;
      if (units[at].partial_sums > 0) {
        EXPECT_EQ(at + 1, units.size());
      }
    }
    EXPECT_GE(slabs, all / kPairs);
    EXPECT_LE(slabs, all / kPairs + 1);
  }
  EXPECT_GT(partials, 0);
  EXPECT_EQ(partials, expected);
}

TEST(Schedule, ASumInHalvesOfKIsOneStoreAndThenOneAdd) {
  const Problem problem = {2048, 2048, 640};
  const Schedule schedule = HalvesOfK(KernelShape{}, problem, kPairs);
  std::map<std::vector<int>, std::vector<const WorkUnit*>> of_tile;
  for (const std::vector<WorkUnit>& units : schedule.of_pair) {
    for (const WorkUnit& unit : units) of_tile[{unit.row, unit.column}].push_back(&unit);
  }
  for (auto& [place, units] : of_tile) {
    ASSERT_EQ(units.size(), 2u);
    if (units[0]->first_slab > 0) std::swap(units[0], units[1]);
    EXPECT_EQ(units[0]->output, Output::kStore);
    EXPECT_EQ(units[0]->slabs, 3);
    EXPECT_EQ(units[1]->output, Output::kAdd);
    EXPECT_EQ(units[1]->first_slab, 3);
  }
}

TEST(WaveArithmetic, Of256TilesOn74Pairs) {
  EXPECT_EQ(WavesOfTiles(256, kPairs), 4);
  EXPECT_EQ(WavesOfNarrowTail(256, kPairs, 0.5), 3.5);
  EXPECT_EQ(WavesOfHalvesOfK(256, kPairs), 3.5);
  EXPECT_NEAR(WavesOfStreamK(256, kPairs), 3.459, 0.001);
  EXPECT_TRUE(NarrowTailPays(256, kPairs));    // 34 tiles are left
  EXPECT_FALSE(NarrowTailPays(1024, kPairs));  // 62
  EXPECT_TRUE(NarrowTailPays(4096, kPairs));   // 26
  EXPECT_FALSE(NarrowTailPays(64, kPairs));
  EXPECT_FALSE(NarrowTailPays(148, kPairs));
}

}  // namespace
}  // namespace gemmd::model
