// The f64 product on tensor cores: D = rows * transposed columns by mma.sync in f64. Persistent
// blocks: a warpgroup that loads, by TMA where it can, and warps that multiply.
#pragma once

#include "kernels/hopper/f64/consumer.h"
#include "kernels/hopper/f64/producer.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/registers.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

template <int kTiling, Major kRowMajor, Major kColumnMajor>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS((ProductLayout<kTiling, kRowMajor, kColumnMajor>::kThreads),
                                      1)
    F64Product(const GEMMD_GRID_CONSTANT ProductParams params) {
  if constexpr (ptx::kHasWarpgroupMma) {
    using Layout = ProductLayout<kTiling, kRowMajor, kColumnMajor>;
    const mma::Ring<Layout> stages;
    ptx::LaunchDependentGrid();
    const std::uint32_t warp = ptx::ThreadIndex() / 32;
    if (warp == 1) {
      if (ptx::ElectOne()) {
        for (std::uint32_t stage = 0; stage < Layout::kStages; ++stage) {
          ptx::MbarrierInit(stages.Full(stage), params.by_elements ? kProducerThreads : 1);
          ptx::MbarrierInit(stages.Empty(stage), Layout::kConsumerWarps);
        }
        ptx::FenceMbarrierInit();
      }
      ptx::SyncWarp();
    } else if (warp == 2 && !params.by_elements) {
      if (ptx::ElectOne()) {
        ptx::PrefetchTensorMap(&params.row_map);
        ptx::PrefetchTensorMap(&params.column_map);
      }
      ptx::SyncWarp();
    }
    ptx::SyncThreads();
    if (ptx::Shuffle(ptx::ThreadIndex() / 128, 0) == 0) {  // a uniform branch, and known to be
      if constexpr (Layout::kMovesRegisters) ptx::DecreaseRegisters<Layout::kProducerRegisters>();
      if (params.by_elements) {
        ProduceByElements<Layout>(params, stages, ptx::ThreadIndex());
      } else if (ptx::ThreadIndex() < 32) {
        if (ptx::ElectOne()) Producer<Layout>(params, stages).Run();
        ptx::SyncWarp();
      }
    } else {
      if constexpr (Layout::kMovesRegisters) ptx::IncreaseRegisters<Layout::kConsumerRegisters>();
      Consumer<Layout>(params, stages).Run();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
