// Every wait, fence, barrier, arrival and commit of ladder D is needed by one of its steps.
#include <string>

#include "kernels/workshop/blackwell_mxfp8/ladder_d_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/mx_run.h"

namespace gemmd::testing {
namespace {

// A tile alone with more stages than slots of scales and than a ring has.
constexpr MxCase kManyStages = {{256, 256, 1000}};
// Five tiles on two pairs, stored by TMA: three rounds of accumulators, many of boxes.
constexpr MxCase kManyTiles = {{256, 1280, 32}};

// Accumulators that share no columns.
constexpr MxCase kManyNarrowTiles = {{256, 640, 32}};

// Elected threads, on a product that is not large.
struct LargeD14 : blackwell_mxfp8::D14 {
  static constexpr int kLargeFrom = 1;
};

template <class Step>
std::string WrongMx(const MxCase& each, const emulator::Options& options) {
  return RunMx(blackwell_mxfp8::LaunchLadderD<Step>, each, options);
}

DeletionCheck LadderD() {
  DeletionCheck check;
  check.sources = {"kernels/workshop/blackwell_mxfp8/ladder_d.h",
                   "kernels/workshop/blackwell_mxfp8/ladder_d_loads.h",
                   "kernels/workshop/blackwell_mxfp8/ladder_d_products.h",
                   "kernels/workshop/blackwell_mxfp8/ladder_d_stores.h"};
  check.redundant = {
      OnlyAligns("kernels/workshop/blackwell_mxfp8/ladder_d.h", 1, "barrier.cluster is .aligned")};
  check.runs = {RunOf<MxCase>(WrongMx<blackwell_mxfp8::D11>, kManyStages),
                RunOf<MxCase>(WrongMx<blackwell_mxfp8::D9>, kManyTiles),
                RunOf<MxCase>(WrongMx<blackwell_mxfp8::D9Boxes>, kManyTiles),
                RunOf<MxCase>(WrongMx<blackwell_mxfp8::D0>, kManyNarrowTiles),
                RunOf<MxCase>(WrongMx<blackwell_mxfp8::D12>, kManyTiles),
                RunOf<MxCase>(WrongMx<LargeD14>, kManyTiles)};
  return check;
}
DELETION_TEST(LadderD)

}  // namespace
}  // namespace gemmd::testing
