// Every wait, fence, barrier, arrival and commit of the Hopper GEMM is needed by a tiling.
#include <string>

#include "kernels/hopper/half/wgmma_gemm.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/half/direct_launch.h"

namespace gemmd::testing {
namespace {

template <int kTiling, bool kHasEpilogue = false>
std::string Wrong(const Shape& shape, const emulator::Options& options) {
  const bool is_settled = options.seed == 2;
  const std::string wrong = RunDirect<kTiling, kHasEpilogue>(shape, options, is_settled);
  return wrong.empty() ? "" : std::string(hopper::half::kTilings[kTiling].name) + ": " + wrong;
}

std::string WrongGroups(const Shape& shape, const emulator::Options& options) {
  using Params = hopper::half::WgmmaGroupParams;
  const std::string wrong =
      RunDirect<hopper::half::kOne64x64, false, Params>(shape, options, options.seed == 2);
  return wrong.empty() ? "" : "groups: " + wrong;
}

DeletionCheck Hopper() {
  return {
      {"kernels/hopper/half/wgmma_consumer.h", "kernels/hopper/half/wgmma_epilogue.h",
       "kernels/hopper/half/wgmma_gemm.h", "kernels/hopper/half/wgmma_producer.h",
       "kernels/hopper/half/wgmma_store.h"},
      {
          OnlyAligns("kernels/hopper/half/wgmma_consumer.h", 1, "wgmma.wait_group is the warp's"),
          OnlyAligns("kernels/hopper/half/wgmma_consumer.h", 2, "for barrier.cluster alone"),
          OnlyAligns("kernels/hopper/half/wgmma_gemm.h", 1, "for the next barrier alone"),
          OnlyAligns("kernels/hopper/half/wgmma_gemm.h", 2, "for the next barrier alone"),
          OnlyAligns("kernels/hopper/half/wgmma_gemm.h", 3, "for barrier.cluster alone"),
          OnlyAligns("kernels/hopper/half/wgmma_gemm.h", 4, "for barrier.cluster alone"),
          {"kernels/hopper/half/wgmma_consumer.h",
           "ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);", 1,
           "the stagger is a delay and orders nothing"},
          // PTX promises the waiting threads theirs, and boxes of MN-major rows are read by
          // other warps.
          {"kernels/hopper/half/wgmma_store.h",
           "ptx::NamedBarrierSync(kGroupBarrier + me.group, kWarpgroup);", 1,
           "the emulator's wgmma.wait_group is for the product of the whole warpgroup"},
      },
      // Short boxes, pairs and drained stages, turns, pairs of one warpgroup, and the epilogue;
      // whole and ragged lines of D, without TMA and with; groups.
      {RunOf(Wrong<hopper::half::kOne64x64>, {20, 264, 200}),
       RunOf(Wrong<hopper::half::kCoop128x256c2>, {260, 520, 330}),
       RunOf(Wrong<hopper::half::kPp128x192c2>, {300, 580, 200}),
       RunOf(Wrong<hopper::half::kOne64x128c2>, {150, 262, 650}),
       RunOf(Wrong<hopper::half::kOne64x128, true>, {70, 140, 580}),
       RunOf(Wrong<hopper::half::kOne64x64>, {20, 262, 70}),
       RunOf(Wrong<hopper::half::kOne64x32>, {20, 262, 70}), RunOf(WrongGroups, {84, 136, 200})}};
}
DELETION_TEST(Hopper)

}  // namespace
}  // namespace gemmd::testing
