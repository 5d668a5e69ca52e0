// The f32 product in three f16 products: D = rows * transposed columns, each factor the sum of two
// f16 parts times a power of two for its line; the product of the lower parts is left out.
// Persistent blocks, one warpgroup that loads by TMA and one or two that multiply by wgmma.
#pragma once

#include "kernels/hopper/f16x3/consumer.h"
#include "kernels/hopper/f16x3/producer.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/registers.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

template <int kTiling>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(ProductLayout<kTiling>::kThreads, 1)
    F16x3Product(const GEMMD_GRID_CONSTANT ProductParams params) {
  if constexpr (ptx::kHasWarpgroupMma) {
    using Layout = ProductLayout<kTiling>;
    const std::uint32_t thread = ptx::ThreadIndex();
    const std::uint32_t warp = ptx::Shuffle(thread / 32, 0);  // uniform, and known to be
    const Block<Layout> block;
    ptx::LaunchDependentGrid();
    if (warp == 1) {
      if (ptx::ElectOne()) {
        for (std::uint32_t stage = 0; stage < Layout::kStages; ++stage) {
          ptx::MbarrierInit(block.Full(stage), 1);
          ptx::MbarrierInit(block.Empty(stage), 4 * Layout::kConsumers);  // warps
        }
        ptx::FenceMbarrierInit();
      }
      ptx::SyncWarp();
    } else if (warp == 2) {
      if (ptx::ElectOne()) {
        ptx::PrefetchTensorMap(&params.sums.rows);
        ptx::PrefetchTensorMap(&params.sums.parts);
      }
      ptx::SyncWarp();
    }
    ptx::SyncThreads();
    if (warp < 4) {
      if constexpr (Layout::kConsumers == 2) ptx::DecreaseRegisters<hopper::kProducerRegisters>();
      if (warp == 0) {
        if (ptx::ElectOne()) Produce<Layout>(params, block);
        ptx::SyncWarp();
      }
    } else {
      if constexpr (Layout::kConsumers == 2) ptx::IncreaseRegisters<hopper::kConsumerRegisters>();
      ConsumerOf<Layout>(params, block, {warp / 4 - 1, warp % 4, thread % 32}).Run();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
