// Every wait, fence, barrier, arrival and commit of the f32 product in three f16 products is needed
// by a tiling.
#include "kernels/hopper/f16x3/launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/f16x3/direct_run.h"

namespace gemmd::testing {
namespace {

constexpr int kTwoGroups = PlaceOf(hopper::f16x3::kTilings, 128, 64);
constexpr int kOneGroup = PlaceOf(hopper::f16x3::kTilings, 64, 16);

DeletionCheck F16x3Product() {
  return {
      {"kernels/hopper/f16x3/consumer.h", "kernels/hopper/f16x3/producer.h",
       "kernels/hopper/f16x3/product.h", "kernels/hopper/f16x3/split.h"},
      {
          {"kernels/hopper/f16x3/consumer.h",
           "ptx::NamedBarrierSync(kTurnBarrier + me_.group, 2 * kWarpgroup);", 1,
           "turns say when, and order no memory: each group has sums of its own"},
          {"kernels/hopper/f16x3/consumer.h", "ptx::WgmmaCommit();", 1,
           "groups of wgmma say when a turn passes, and the last wait is for all"},
          {"kernels/hopper/f16x3/consumer.h", "ptx::WgmmaWait<1>();", 1,
           "says when a turn passes, and the last wait is for all"},
          OnlyAligns("kernels/hopper/f16x3/consumer.h", 1, "no thread reads a stage but by wgmma"),
          OnlyAligns("kernels/hopper/f16x3/product.h", 1, "for the next barrier alone"),
          OnlyAligns("kernels/hopper/f16x3/product.h", 2, "for the next barrier alone"),
          OnlyAligns("kernels/hopper/f16x3/product.h", 3, "nothing comes after it"),
      },
      // Two groups that take turns, and one; several tiles for a block, more stages of K than the
      // ring has, and more lines than the split has blocks for.
      {RunOf(RunF16x3<kTwoGroups, false>, {130, 300, 328}),
       RunOf(RunF16x3<kOneGroup, true>, {20, 200, 800}),
       RunOf(RunF16x3<kOneGroup, false>, {9, 24, 4096})}};
}
DELETION_TEST(F16x3Product)

}  // namespace
}  // namespace gemmd::testing
