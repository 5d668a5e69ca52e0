// The kernels of ladder D (ladder_d_steps.h says what each step changes).
#pragma once

#include "kernels/mma/issuer.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_loads.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_params.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_products.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_stores.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_tiles.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

template <class Step, bool kTensorStores>
GEMMD_DEVICE void PrefetchMaps(const LadderDParams& params) {
  ptx::PrefetchTensorMap(&params.a);
  ptx::PrefetchTensorMap(&params.b);
  ptx::PrefetchTensorMap(&params.a_scales);
  ptx::PrefetchTensorMap(&params.b_scales);
  if constexpr (Step::kHalvesTail) ptx::PrefetchTensorMap(&params.half_b);
  if constexpr (kTensorStores) ptx::PrefetchTensorMap(&params.stored);
}

// Each block has all mbarriers, so that they lie alike; ladder_d_params.h says which of them are
// used in the even one alone.
template <class Layout>
GEMMD_DEVICE void InitMbarriers(ptx::SharedAddress shared) {
  for (int stage = 0; stage < Layout::kStages; ++stage) {
    const std::uint32_t offset = stage * ptx::kMbarrierBytes;
    ptx::MbarrierInit(shared + Layout::kFull + offset, 2);   // a thread of each block
    ptx::MbarrierInit(shared + Layout::kEmpty + offset, 1);  // a commit
  }
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t offset = i * ptx::kMbarrierBytes;
    ptx::MbarrierInit(shared + Layout::kSummed + offset, 1);
    ptx::MbarrierInit(shared + Layout::kOwnFree + offset, 2 * kStoringWarps);
  }
  ptx::MbarrierInit(shared + Layout::kSharedFree, 2 * kStoringWarps);
  ptx::FenceMbarrierInit();
}

template <class Step, bool kTensorStores>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kLadderDThreads, 1)
    LadderD(const GEMMD_GRID_CONSTANT LadderDParams params) {
  using Layout = LadderDLayout<Step, kTensorStores>;
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t warp = thread / 32;
  PairPlace place = {};
  place.rank = ptx::RankInCluster();
  place.pair = ptx::BlockIndexX() / 2;
  place.pairs = ptx::GridSizeX() / 2;
  place.shared = ptx::SharedBase();
  if (thread == 0) {
    PrefetchMaps<Step, kTensorStores>(params);
    InitMbarriers<Layout>(place.shared);
  }
  // Allocation is the pair's: each warp that asks must know that the other block runs (PTX ISA,
  // "tcgen05.alloc"), and nobody uses columns that one of both may not have yet.
  ptx::ClusterSync();
  if (warp == kMultiplyingWarp) {
    ptx::Tcgen05Alloc<2>(place.shared + Layout::kSlot, kMaxColumns);
    ptx::Tcgen05Relinquish<2>();
  }
  ptx::ClusterSync();
  place.tensor = ptx::LoadShared<std::uint32_t>(place.shared + Layout::kSlot);

  if (warp == kLoadingWarp) {
    if (mma::IsIssuer<Step::kElects>()) LadderDLoads<Step, kTensorStores>(params, place).Run();
  } else if (warp == kMultiplyingWarp) {
    if (place.rank == 0 && mma::IsIssuer<Step::kElects>()) {
      LadderDProducts<Step, kTensorStores>(params, place).Run();
    }
  } else {
    LadderDStores<Step, kTensorStores>(params, place).Run();
  }
  // Nothing of the pair is under way, and the other block's mbarriers are not needed any more.
  ptx::SyncWarp();
  ptx::ClusterSync();
  if (warp == kMultiplyingWarp) ptx::Tcgen05Dealloc<2>(place.tensor, kMaxColumns);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
