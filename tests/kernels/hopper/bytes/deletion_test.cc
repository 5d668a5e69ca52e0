// Every wait, fence, barrier, arrival and commit of the products of 8-bit operands is needed by a
// tiling.
#include <string>

#include "kernels/hopper/bytes/launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/hopper/bytes/direct_launch.h"

namespace gemmd::testing {
namespace {

DeletionCheck Bytes() {
  constexpr const char* kConsumer = "kernels/hopper/bytes/consumer.h";
  constexpr const char* kKernel = "kernels/hopper/bytes/byte_gemm.h";
  return {{kConsumer, kKernel},
          {
              OnlyAligns(kConsumer, 1, "wgmma.wait_group is the warp's"),
              OnlyAligns(kKernel, 1, "for the next barrier alone"),
              OnlyAligns(kKernel, 2, "for the next barrier alone"),
              OnlyAligns(kKernel, 3, "for barrier.cluster alone"),
              OnlyAligns(kKernel, 4, "for barrier.cluster alone"),
              {kConsumer, "ptx::NamedBarrierSync(half::kStaggerBarrier, 2 * kWarpgroup);", 1,
               "the stagger is a delay and orders nothing"},
          },
          // Short boxes, pairs, and turns; chunks of columns whose scales pass through shared
          // memory, several tiles a block.
          {RunOf(RunIntegers<hopper::half::kOne64x64>, {20, 264, 900}),
           RunOf(RunIntegers<hopper::half::kCoop128x256c2>, {260, 520, 660}),
           RunOf(RunIntegers<hopper::half::kPp128x192c2>, {300, 580, 400}),
           RunOf(RunFloats<hopper::half::kOne64x64>, {20, 340, 330}),
           RunOf(RunFloats<hopper::half::kCoop128x256>, {140, 300, 660})},
          {"kernels/hopper/half/"}};
}
DELETION_TEST(Bytes)

}  // namespace
}  // namespace gemmd::testing
