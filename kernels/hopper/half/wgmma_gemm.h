// The Hopper GEMM: persistent blocks, one warpgroup that loads by TMA and one or two that
// multiply by wgmma.
#pragma once

#include "kernels/hopper/half/wgmma_consumer.h"
#include "kernels/hopper/half/wgmma_producer.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/registers.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Clears the rows that boxes of groups may leave: zeros, because wgmma reads them, though nothing
// that comes of them is stored. Boxes differ from tile to tile, so this comes before the first one.
template <class Layout>
GEMMD_DEVICE void ClearStages(const WgmmaGroupParams& params, const Block<Layout>& block,
                              std::uint32_t thread) {
  const std::uint32_t first = params.short_boxes != 0 ? params.short_box[0].lines : params.box_rows;
  for (std::uint32_t stage = 0; stage < Layout::kStages; ++stage) {
    for (std::uint32_t at = first * kSpanBytes + thread * 16; at < Layout::kTileM * kSpanBytes;
         at += Layout::kThreads * 16) {
      ptx::StoreShared(block.Stage(stage) + at, ptx::Vector4{0, 0, 0, 0});
    }
  }
  ptx::FenceProxyAsync();
}

// D = rows * transposed columns, summed in f32 in order of K by 16 whatever the tiling.
// kHasEpilogue: what params says is applied, and D may be f32. Params: WgmmaParams, whose problems
// or groups have their tiles one after another.
template <int kTiling, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue,
          class Params>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kWarpgroup*(kTilings[kTiling].consumers + 1), 1)
    WgmmaGemm(const GEMMD_GRID_CONSTANT Params params) {
  if constexpr (ptx::kHasWarpgroupMma) {
    using Layout = WgmmaLayout<kTiling, kRowMajor, kColumnMajor>;
    const std::uint32_t thread = ptx::ThreadIndex();
    const std::uint32_t warp = ptx::Shuffle(thread / 32, 0);  // uniform, and known to be
    const std::uint32_t lane = thread % 32;
    const Block<Layout> block;
    ptx::LaunchDependentGrid();
    // The multiprocessor stands still until the first load: warps share the work before it.
    TileWalk<Params> walk(params, block);
    TileCorner corner = {};
    if (warp == 0) {
      corner = CornerOf(params, block, walk.tile());
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
        if constexpr (!kHasEpilogue && !Layout::kStoresByUnit) {
          ptx::PrefetchTensorMap(&params.operands[0].d);
        }
      }
      ptx::SyncWarp();
    }
    if constexpr (Params::kIsGroups && Layout::kCluster == 1) {
      ClearStages(params, block, thread);
    }
    if constexpr (Layout::kCluster == 1) {
      ptx::SyncThreads();
    } else {
      ptx::ClusterSync();
    }
    if (warp < 4) {
      if constexpr (Layout::kConsumers == 2) ptx::DecreaseRegisters<kProducerRegisters>();
      if (warp == 0) {
        if (ptx::ElectOne()) Produce(params, block, walk, corner);
        ptx::SyncWarp();
      } else if (warp == 1 && params.prefetched != 0) {
        if constexpr (Layout::Rows::kIsKMajor && Layout::Columns::kIsKMajor && Params::kIsOne) {
          if (ptx::ElectOne()) PrefetchOperands<Layout>(params);
        }
        ptx::SyncWarp();
      }
    } else {
      if constexpr (Layout::kConsumers == 2) ptx::IncreaseRegisters<kConsumerRegisters>();
      Consume<Layout, Element, kRowMajor, kColumnMajor, kHasEpilogue>(
          params, block, {warp / 4 - 1, warp % 4, lane});
    }
    // A block stays while others of the cluster may still arrive at its barriers.
    if constexpr (Layout::kCluster > 1) ptx::ClusterSync();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
