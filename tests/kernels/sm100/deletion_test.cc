// Every wait, fence, barrier, arrival and commit of ladders C and D is needed by one of their
// steps.
#include <string>

#include "kernels/sm100/ladder_c_launch.h"
#include "kernels/sm100/ladder_d_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/mx_run.h"
#include "tests/kernels/sm100/ladder_c_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const BlackwellCase& each, const emulator::Options& options) {
  return RunBlackwell(sm100::LaunchLadderC<Step>, each, options);
}

DeletionCheck LadderC() {
  return {{"kernels/sm100/ladder_c.h"},
          {},
          // A tile of D that TMA stores and one that threads do; three tiles of K.
          RunsOf<BlackwellCase>({Wrong<sm100::C2>, Wrong<sm100::C3>, Wrong<sm100::C4>},
                                {{{64, 101, 140}}})};
}
DELETION_TEST(LadderC)

// A tile alone with more stages than slots of scales and than a ring has.
constexpr MxCase kManyStages = {{256, 256, 1000}};
// Five tiles on two pairs, stored by TMA: three rounds of accumulators, many of boxes.
constexpr MxCase kManyTiles = {{256, 1280, 32}};

// Accumulators that share no columns.
constexpr MxCase kManyNarrowTiles = {{256, 640, 32}};

template <class Step>
std::string WrongMx(const MxCase& each, const emulator::Options& options) {
  return RunMx(sm100::LaunchLadderD<Step>, each, options);
}

DeletionCheck LadderD() {
  DeletionCheck check;
  check.sources = {"kernels/sm100/ladder_d.h", "kernels/sm100/ladder_d_loads.h",
                   "kernels/sm100/ladder_d_products.h", "kernels/sm100/ladder_d_stores.h"};
  check.redundant = {OnlyAligns("kernels/sm100/ladder_d.h", 1, "barrier.cluster is .aligned")};
  check.runs = {RunOf<MxCase>(WrongMx<sm100::D11>, kManyStages),
                RunOf<MxCase>(WrongMx<sm100::D9>, kManyTiles),
                RunOf<MxCase>(WrongMx<sm100::D0>, kManyNarrowTiles),
                RunOf<MxCase>(WrongMx<sm100::D12>, kManyTiles)};
  return check;
}
DELETION_TEST(LadderD)

}  // namespace
}  // namespace gemmd::testing
