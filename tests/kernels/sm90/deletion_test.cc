// Every wait, fence, barrier, arrival and commit of the Hopper GEMM is needed by a tiling.
#include <string>

#include "kernels/sm90/wgmma_gemm.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/sm90/direct_launch.h"

namespace gemmd::testing {
namespace {

template <int kTiling, bool kHasEpilogue>
auto RunOf(const DirectShape& shape) {
  return [shape](const emulator::Options& options) {
    const bool is_settled = options.seed == 2;
    const std::string wrong = RunDirect<kTiling, kHasEpilogue>(shape, options, is_settled);
    return wrong.empty() ? "" : std::string(sm90::kTilings[kTiling].name) + ": " + wrong;
  };
}

DeletionCheck Hopper() {
  return {
      {"kernels/sm90/wgmma_consumer.h", "kernels/sm90/wgmma_epilogue.h",
       "kernels/sm90/wgmma_gemm.h", "kernels/sm90/wgmma_producer.h", "kernels/sm90/wgmma_store.h"},
      {
          // What only brings a warp together again, for instructions that are .aligned: the
          // emulator's threads never run as one, so that nothing is amiss there without it.
          {"kernels/sm90/wgmma_consumer.h", "ptx::SyncWarp();", 1,
           "wgmma.wait_group is the warp's"},
          {"kernels/sm90/wgmma_consumer.h", "ptx::SyncWarp();", 2, "for barrier.cluster alone"},
          {"kernels/sm90/wgmma_gemm.h", "ptx::SyncWarp();", 1, "for the next barrier alone"},
          {"kernels/sm90/wgmma_gemm.h", "ptx::SyncWarp();", 2, "for the next barrier alone"},
          {"kernels/sm90/wgmma_gemm.h", "ptx::SyncWarp();", 3, "for barrier.cluster alone"},
          {"kernels/sm90/wgmma_gemm.h", "ptx::SyncWarp();", 4, "for barrier.cluster alone"},
          {"kernels/sm90/wgmma_consumer.h",
           "ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);", 1,
           "the stagger is a delay and orders nothing"},
          // PTX promises the waiting threads theirs, and boxes of MN-major rows are read by
          // other warps.
          {"kernels/sm90/wgmma_store.h", "ptx::NamedBarrierSync(1 + me.group, kWarpgroup);", 1,
           "the emulator's wgmma.wait_group is for the product of the whole warpgroup"},
      },
      // By place in kernels/sm90/tilings.h: short boxes, pairs and drained stages, turns, pairs
      // of one warpgroup, and the epilogue; whole and ragged lines of D, without TMA and with.
      {RunOf<6, false>({20, 264, 200}), RunOf<0, false>({260, 520, 330}),
       RunOf<4, false>({300, 580, 200}), RunOf<8, false>({150, 262, 650}),
       RunOf<5, true>({70, 140, 580}), RunOf<6, false>({20, 262, 70}),
       RunOf<7, false>({20, 262, 70})}};
}
DELETION_TEST(Hopper, Hopper)

}  // namespace
}  // namespace gemmd::testing
