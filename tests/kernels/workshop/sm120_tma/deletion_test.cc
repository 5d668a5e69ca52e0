// Every wait, fence, barrier, arrival and commit of ladder B is needed by one of its steps.
#include <string>

#include "kernels/workshop/sm120_tma/ladder_b_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/direct_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const Shape& shape, const emulator::Options& options) {
  return RunDirect(tensor_copy::Launch<Step, mma::F16AccumulateF32>, shape, options);
}

DeletionCheck LadderB() {
  return {{"kernels/mma/tensor_copy/gemm.h", "kernels/mma/tensor_copy/tensor_stages.h",
           "kernels/mma/tensor_copy/stage_refill.h", "kernels/mma/tensor_copy/box_store.h"},
          {},
          // A tile of D that TMA stores and one that threads do.
          RunsOf<Shape>(
              {Wrong<sm120_tma::BcfDbfRw>, Wrong<sm120_tma::KStages>, Wrong<sm120_tma::TmaLoads>,
               Wrong<sm120_tma::TmaR32>, Wrong<sm120_tma::TmaR64>, Wrong<sm120_tma::TmaRw>,
               Wrong<sm120_tma::PairBoxes>, Wrong<sm120_tma::WarpRelease>,
               Wrong<sm120_tma::Warps64>, Wrong<sm120_tma::Warps64K64>, Wrong<sm120_tma::TmaRw64>},
              {{128, 253, 32}, {128, 253, 320}})};
}
DELETION_TEST(LadderB)

}  // namespace
}  // namespace gemmd::testing
