// Stages of A and B that TMA fills, with an mbarrier that says when one is full and, where
// warps release them one by one, another that says when it is free.
#pragma once

#include "kernels/mma/ring.h"
#include "kernels/mma/tensor_copy/params.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

template <class Step>
class TensorStages {
 public:
  using Layout = BlockLayout<Step>;
  using Turn = mma::RingPosition<Step::kStages>;

  GEMMD_DEVICE TensorStages(const Params& params, ptx::SharedAddress shared,
                            const mma::TileCorner& corner)
      : params_(params), ring_{shared}, corner_(corner) {}

  GEMMD_DEVICE ptx::SharedAddress ATile(std::uint32_t stage) const { return ring_.Stage(stage); }
  GEMMD_DEVICE ptx::SharedAddress BTile(std::uint32_t stage) const {
    return ATile(stage) + Layout::A::kBytes;
  }

  // One thread calls it; a barrier of the block follows.
  GEMMD_DEVICE void InitBarriers() const {
    for (std::uint32_t stage = 0; stage < Step::kStages; ++stage) {
      ptx::MbarrierInit(ring_.Full(stage), 1);
      if constexpr (Step::kReleaseByWarps) {
        ptx::MbarrierInit(ring_.Empty(stage), Layout::kWarps);
      }
    }
    ptx::FenceMbarrierInit();
  }

  // One thread fills the stage, once it is free, with the tile of K that starts at k.
  GEMMD_DEVICE void Fill(std::uint32_t stage, std::int32_t k) const {
    using BPanel = typename Layout::B::Panel;
    ptx::MbarrierArriveExpect(ring_.Full(stage), Layout::kStageBytes);
    ptx::TensorLoad2D(ATile(stage), &params_.a, k, corner_.row, ring_.Full(stage));
    GEMMD_UNROLL
    for (int panel = 0; panel < Layout::B::kPanels; ++panel) {
      ptx::TensorLoad2D(BTile(stage) + panel * BPanel::kBytes, &params_.b,
                        corner_.column + panel * BPanel::kColumns, k, ring_.Full(stage));
    }
  }

  GEMMD_DEVICE void WaitFull(const Turn& turn) const {
    ptx::MbarrierWait(ring_.Full(turn.stage), turn.parity);
  }
  GEMMD_DEVICE void WaitFree(const Turn& turn) const {
    ptx::MbarrierWait(ring_.Empty(turn.stage), turn.parity);
  }

  // Tells the producer that this warp has read the stage: each of them calls it.
  GEMMD_DEVICE void ReleaseByWarp(std::uint32_t stage, std::uint32_t lane) const {
    ptx::SyncWarp();
    if (lane == 0) {
      ptx::MbarrierArrive(ring_.Empty(stage));
    }
  }

 private:
  const Params& params_;
  const mma::Ring<Layout> ring_;
  const mma::TileCorner corner_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
