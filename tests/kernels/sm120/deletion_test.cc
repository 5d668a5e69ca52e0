// Every wait, fence, barrier, arrival and commit of ladder B is needed by one of its steps, and
// those of the MXFP8 kernel by it.
#include <string>

#include "kernels/sm120/ladder_b_launch.h"
#include "kernels/sm120/mx_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/direct_run.h"
#include "tests/kernels/mma/mx_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const Shape& shape, const emulator::Options& options) {
  return RunDirect(sm120::LaunchLadderB<Step, mma::F16AccumulateF32>, shape, options);
}

DeletionCheck LadderB() {
  return {{"kernels/sm120/ladder_b.h", "kernels/sm120/tensor_stages.h",
           "kernels/sm120/stage_refill.h", "kernels/sm120/box_store.h"},
          {},
          // A tile of D that TMA stores and one that threads do.
          RunsOf<Shape>({Wrong<sm120::BcfDbfRw>, Wrong<sm120::KStages>, Wrong<sm120::TmaLoads>,
                         Wrong<sm120::TmaR32>, Wrong<sm120::TmaR64>, Wrong<sm120::TmaRw>,
                         Wrong<sm120::PairBoxes>, Wrong<sm120::WarpRelease>, Wrong<sm120::Warps64>,
                         Wrong<sm120::Warps64K64>, Wrong<sm120::TmaRw64>},
                        {{128, 253, 32}, {128, 253, 320}})};
}
DELETION_TEST(LadderB)

std::string WrongMx(const MxCase& each, const emulator::Options& options) {
  return RunMx(sm120::LaunchMx, each, options);
}

// Stages are filled again, and once more.
DeletionCheck MxGemm() {
  return {{"kernels/sm120/mx_gemm.h"}, {}, RunsOf<MxCase>({WrongMx}, {{{128, 100, 800}}})};
}
DELETION_TEST(MxGemm)

}  // namespace
}  // namespace gemmd::testing
