// The f32 product on bf16 tensor cores: D = rows * transposed columns, each factor the sum of
// three bf16 parts, of whose nine products the six largest are summed. Persistent blocks, one
// warpgroup that loads by TMA and one or two that multiply by wgmma.
#pragma once

#include "kernels/hopper/f32/consumer.h"
#include "kernels/hopper/f32/producer.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/registers.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

template <int kTiling, Major kRowMajor>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(ProductLayout<kTiling>::kThreads, 1)
    F32Product(const GEMMD_GRID_CONSTANT F32Params params) {
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
        ptx::PrefetchTensorMap(&params.rows);
        ptx::PrefetchTensorMap(&params.parts);
      }
      ptx::SyncWarp();
    }
    ptx::SyncThreads();
    if (warp < 4) {
      if constexpr (Layout::kConsumers == 2) ptx::DecreaseRegisters<hopper::kProducerRegisters>();
      if (warp == 0) {
        if (ptx::ElectOne()) Produce<Layout, kRowMajor>(params, block);
        ptx::SyncWarp();
      }
    } else {
      if constexpr (Layout::kConsumers == 2) ptx::IncreaseRegisters<hopper::kConsumerRegisters>();
      ConsumerOf<Layout, kRowMajor>(params, block, {warp / 4 - 1, warp % 4, thread % 32}).Run();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
