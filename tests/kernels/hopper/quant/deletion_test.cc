// Every wait, fence, barrier, arrival and commit of the products by quantized weights is needed by
// a tiling.
#include "kernels/hopper/quant/float_rows_launch.h"
#include "kernels/hopper/quant/launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/quant/direct_run.h"
#include "tests/kernels/hopper/quant/float_rows_run.h"

namespace gemmd::testing {
namespace {

// Tilings are named by their place in kernels/hopper/quant/tilings.h. K is longer than the rings,
// and its last turn is not whole.
DeletionCheck QuantFew() {
  constexpr const char* kSource = "kernels/hopper/quant/few.h";
  return {{kSource, "kernels/hopper/quant/few_chain.h", "kernels/hopper/quant/few_layout.h",
           "kernels/hopper/quant/few_loaders.h"},
          {
              OnlyAligns(kSource, 6, "nothing comes after it"),
              {kSource, "ptx::WaitForPrecedingGrid();", 3,
               "who has a stage of A has waited by it; else it would wait awake"},
          },
          {RunOf(RunFew<0>, {1, 64, 6144 - 128}), RunOf(RunFew<7>, {16, 64, 2048 - 128}),
           RunOf(RunFewLines<4>, {8, 64, 2048 - 128}), RunOf(RunChain<0>, {1, 64, 6144 - 128}),
           RunOf(RunChain<2>, {16, 64, 4096 - 128}), RunOf(RunFewParts<3>, {8, 64, 2048 - 128})}};
}
DELETION_TEST(QuantFew)

DeletionCheck QuantWide() {
  constexpr const char* kSource = "kernels/hopper/quant/wide.h";
  return {{kSource, "kernels/hopper/quant/row_sums.h"},
          {
              {kSource, "ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);", 1,
               "says when, and orders no memory: each group has sums of its own"},
              {kSource, "ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);", 2,
               "says when, and orders no memory: each group has sums of its own"},
              {kSource, "ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);", 3,
               "says when, and orders no memory: each group has sums of its own"},
              OnlyAligns(kSource, 2, "for the next barrier alone"),
              OnlyAligns(kSource, 3, "for the cluster's barrier alone"),
              {kSource, "ptx::WaitForPrecedingGrid();", 2,
               "who has a stage of A has waited by it; else it would wait awake"},
          },
          {RunOf(RunWide<2>, {200, 256, 1152}), RunOf(RunWide<5>, {20, 256, 1152}),
           RunOf(RunWideChain<2>, {200, 256, 1152}), RunOf(RunWideChain<0>, {20, 128, 1280}),
           RunOf(RunWideParts<1>, {70, 512, 640}), RunOf(RunWideParts<2>, {200, 256, 896}),
           RunOf(RunWideOffsets<3>, {40, 128, 640})}};
}
DELETION_TEST(QuantWide)

DeletionCheck QuantFloatRows() {
  constexpr const char* kSource = "kernels/hopper/quant/float_rows.h";
  return {{kSource}, {}, {RunOf(RunFloatRows, {5, 70, 192})}};
}
DELETION_TEST(QuantFloatRows)

}  // namespace
}  // namespace gemmd::testing
