// Every wait, fence, barrier, arrival and commit of the f32 product is needed by a tiling.
#include "kernels/hopper/f32/launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/f32/direct_run.h"

namespace gemmd::testing {
namespace {

constexpr int kTwoGroups = PlaceOf(hopper::f32::kTilings, 128, 64);
constexpr int kOneGroup = PlaceOf(hopper::f32::kTilings, 64, 8);

DeletionCheck F32Product() {
  return {{"kernels/hopper/f32/consumer.h", "kernels/hopper/f32/producer.h",
           "kernels/hopper/f32/product.h", "kernels/hopper/f32/split.h"},
          {
              {"kernels/hopper/f32/consumer.h",
               "ptx::NamedBarrierSync(kTurnBarrier + me_.group, 2 * kWarpgroup);", 1,
               "turns say when, and order no memory: each group has sums of its own"},
              OnlyAligns("kernels/hopper/f32/product.h", 1, "for the next barrier alone"),
              OnlyAligns("kernels/hopper/f32/product.h", 2, "for the next barrier alone"),
              OnlyAligns("kernels/hopper/f32/product.h", 3, "nothing comes after it"),
          },
          // Groups that take turns, and one; several tiles for a block, more stages of K than the
          // ring has.
          {RunOf(RunDirect<kTwoGroups, ptx::Major::kK>, {130, 300, 200}),
           RunOf(RunDirect<kOneGroup, ptx::Major::kMn>, {20, 200, 800})}};
}
DELETION_TEST(F32Product)

}  // namespace
}  // namespace gemmd::testing
