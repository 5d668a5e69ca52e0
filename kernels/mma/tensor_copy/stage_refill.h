// Fills a stage by TMA again once it is read; the classes differ in when they do. Every thread
// calls, for each tile of K,
//   Begin()              before the first one
//   DuringTile(k, read)  behind the first step of the tile at k, which the stage `read` holds
//   HaveRead(k, read)    when its warp has loaded the last fragments of that tile
//   Finish()             behind the last tile; returns when every warp has read it
//
// The end of K is read from the parameters each time. With a copy of it in a register, nvcc 13.0
// made of each refill instructions that every warp passes over one by one instead of a branch
// around them, which took 10 % of tma_r_32.
#pragma once

#include <type_traits>

#include "kernels/mma/tensor_copy/params.h"
#include "kernels/mma/tensor_copy/tensor_stages.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/platform.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

// Thread 0 fills each stage with its first tile of K.
template <class Step>
GEMMD_DEVICE void FillEveryStage(const TensorStages<Step>& stages, const Params& params,
                                 std::uint32_t thread) {
  for (int stage = 0; stage < Step::kStages; ++stage) {
    const std::int32_t k = stage * Step::kTileK;
    if (thread == 0 && k < params.gemm.k) stages.Fill(stage, k);
  }
}

// Thread 0 fills the stage as soon as a barrier has shown that everyone has read the stage.
template <class Step>
class RefillBehindBarrier {
 public:
  using Turn = typename TensorStages<Step>::Turn;

  GEMMD_DEVICE RefillBehindBarrier(const TensorStages<Step>& stages, const Params& params,
                                   std::uint32_t thread)
      : stages_(stages), params_(params), thread_(thread) {}

  GEMMD_DEVICE void Begin() const { FillEveryStage(stages_, params_, thread_); }
  GEMMD_DEVICE void DuringTile(std::int32_t, const Turn&) const {}
  GEMMD_DEVICE void HaveRead(std::int32_t k, const Turn& read) const {
    constexpr std::int32_t kAhead = Step::kStages * Step::kTileK;
    ptx::SyncThreads();
    if (thread_ == 0 && k + kAhead < params_.gemm.k) stages_.Fill(read.stage, k + kAhead);
  }
  GEMMD_DEVICE void Finish() const {}  // the barrier of the last tile has shown it

 private:
  const TensorStages<Step>& stages_;
  const Params& params_;
  const std::uint32_t thread_;
};

// Thread 0 fills the stage; it waits for the other warps a step later than its own has released the
// stage, when they are likely to have done so.
template <class Step>
class RefillWhenReleased {
 public:
  using Turn = typename TensorStages<Step>::Turn;

  GEMMD_DEVICE RefillWhenReleased(const TensorStages<Step>& stages, const Params& params,
                                  std::uint32_t thread)
      : stages_(stages), params_(params), thread_(thread) {}

  GEMMD_DEVICE void Begin() const { FillEveryStage(stages_, params_, thread_); }
  GEMMD_DEVICE void DuringTile(std::int32_t k, const Turn& read) const {
    constexpr std::int32_t kAhead = (Step::kStages - 1) * Step::kTileK;
    if (thread_ == 0 && k > 0 && k + kAhead < params_.gemm.k) {
      const Turn freed = Before(read);
      stages_.WaitFree(freed);
      stages_.Fill(freed.stage, k + kAhead);
    }
  }
  GEMMD_DEVICE void HaveRead(std::int32_t, const Turn& read) const {
    stages_.ReleaseByWarp(read.stage, thread_ % 32);
  }
  GEMMD_DEVICE void Finish() const { ptx::SyncThreads(); }

 private:
  // Returns the turn before `turn`, which is not the first.
  static GEMMD_DEVICE Turn Before(const Turn& turn) {
    if (turn.stage > 0) return {turn.stage - 1, turn.parity};
    return {Step::kStages - 1, turn.parity ^ 1};
  }

  const TensorStages<Step>& stages_;
  const Params& params_;
  const std::uint32_t thread_;
};

template <class Step>
using StageRefill =
    std::conditional_t<Step::kReleaseByWarps, RefillWhenReleased<Step>, RefillBehindBarrier<Step>>;

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
