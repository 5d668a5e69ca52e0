// Products of 8-bit operands on Hopper: the pipeline of the half family, whose consumers multiply
// bytes.
#pragma once

#include "kernels/hopper/bytes/consumer.h"
#include "kernels/hopper/half/wgmma_producer.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/registers.h"

namespace gemmd::hopper::bytes {
inline namespace GEMMD_BACKEND {

// D = rows * transposed columns. Integers are summed in int32. Floats: in each 128 of K by the
// tensor cores, 32 at a time; then a block after another in f32, each multiplied by its scales
// where kHasBlocks.
template <int kTiling, class Format, bool kHasBlocks, bool kHasEpilogue>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kWarpgroup*(half::kTilings[kTiling].consumers + 1), 1)
    ByteGemm(const GEMMD_GRID_CONSTANT ByteParams params) {
  if constexpr (ptx::kHasWarpgroupMma) {
    using Layout = half::WgmmaLayout<kTiling, ptx::Major::kK, ptx::Major::kK>;
    const std::uint32_t thread = ptx::ThreadIndex();
    const std::uint32_t warp = ptx::Shuffle(thread / 32, 0);  // uniform, and known to be
    const std::uint32_t lane = thread % 32;
    const Block<Layout> block;
    ptx::LaunchDependentGrid();
    TileWalk<ByteParams> walk(params, block);
    TileCorner corner = {};
    if (warp == 0) {
      corner = half::CornerOf(params, block, walk.tile());
    } else if (warp == 1) {
      if (ptx::ElectOne()) {
        for (std::uint32_t stage = 0; stage < Layout::kStages; ++stage) {
          ptx::MbarrierInit(block.Full(stage), 1);
          ptx::MbarrierInit(block.Empty(stage),
                            (Layout::kIsPingPong ? 1 : Layout::kConsumers) * Layout::kCluster);
        }
        ptx::FenceMbarrierInit();
      }
      ptx::SyncWarp();
    } else if (warp == 2) {
      if (ptx::ElectOne()) {
        ptx::PrefetchTensorMap(&params.operands[0].rows);
        ptx::PrefetchTensorMap(&params.operands[0].columns);
      }
      ptx::SyncWarp();
    }
    if constexpr (Layout::kCluster == 1) {
      ptx::SyncThreads();
    } else {
      ptx::ClusterSync();
    }
    if (warp < 4) {
      if constexpr (Layout::kConsumers == 2) ptx::DecreaseRegisters<kProducerRegisters>();
      if (warp == 0) {
        if (ptx::ElectOne()) half::Produce(params, block, walk, corner);
        ptx::SyncWarp();
      } else if (warp == 1 && params.prefetched != 0) {
        if (ptx::ElectOne()) half::PrefetchOperands<Layout>(params);
        ptx::SyncWarp();
      }
    } else {
      if constexpr (Layout::kConsumers == 2) ptx::IncreaseRegisters<kConsumerRegisters>();
      Consume<Layout, Format, kHasBlocks, kHasEpilogue>(params, block,
                                                        {warp / 4 - 1, warp % 4, lane});
    }
    // A block stays while others of the cluster may still arrive at its barriers.
    if constexpr (Layout::kCluster > 1) ptx::ClusterSync();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::bytes
