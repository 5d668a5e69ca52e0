// A product by mma.sync whose operands come by TMA, within the 99 KB of a block of sm_120. A step's
// values (served_step.h) say how: ladder B (workshop/sm120_tma) reaches the one that serves from
// simpler ones, of which two load by cp.async.
#pragma once

#include "kernels/mma/store_tile.h"
#include "kernels/mma/tensor_copy/box_store.h"
#include "kernels/mma/tensor_copy/params.h"
#include "kernels/mma/tensor_copy/stage_refill.h"
#include "kernels/mma/tensor_copy/tensor_stages.h"
#include "kernels/mma/tensor_copy/warp_fragments.h"
#include "kernels/mma/tile_copies.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

// One thread's part in computing one tile of D.
template <class Step, class Types>
class Worker {
 public:
  GEMMD_DEVICE explicit Worker(const Params& params)
      : params_(params),
        thread_(ptx::ThreadIndex()),
        lane_(thread_ % 32),
        warp_row_(thread_ / 32 / Layout::kWarpsN * kWarpM),
        warp_column_(thread_ / 32 % Layout::kWarpsN * Step::kWarpN),
        corner_(
            mma::RasterTile(ptx::BlockIndexX(), params.gemm, Step::kRasterGroup, kTileM, kTileN)),
        k_tiles_((params.gemm.k + Step::kTileK - 1) / Step::kTileK),
        stages_(params, ptx::SharedBase(), corner_),
        reader_(stages_.ATile(0), stages_.BTile(0), warp_row_, warp_column_, lane_) {}

  GEMMD_DEVICE void Run() {
    StartLoads();
    if constexpr (Step::kFragmentsAhead) {
      RunFragmentsAhead();
    } else {
      RunTiles();
    }
    StoreTile();
  }

 private:
  using Layout = BlockLayout<Step>;
  using Turn = typename TensorStages<Step>::Turn;
  static constexpr int kRowTiles = kWarpM / 16;  // 16x8 tiles of D that a warp holds
  static constexpr int kColumnTiles = Step::kWarpN / 8;
  static constexpr int kSteps = Step::kTileK / 16;  // mma.sync steps in a tile of K
  using Reader = FragmentReader<typename Layout::A, typename Layout::B, kRowTiles, kColumnTiles>;

  GEMMD_DEVICE void LoadFragments(int step) {
    GEMMD_UNROLL
    for (int pair = 0; pair < kColumnTiles / 2; ++pair) {
      reader_.LoadBPair(b_, pair, step);
    }
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) reader_.LoadARow(a_[i], i, step);
  }

  // Multiplies one step of K, whose fragments are loaded.
  GEMMD_DEVICE void Multiply() {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < kColumnTiles; ++j) MultiplyTile(i, j);
    }
  }

  GEMMD_DEVICE void MultiplyTile(int i, int j) { Types::MultiplyAdd(sum_[i][j], a_[i], b_[j]); }

  // Multiplies one step of K while the fragments of step `next` load: each into the registers that
  // its last product leaves, so that two blocks' registers fit.
  GEMMD_DEVICE void MultiplyAndLoad(int next) {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int pair = 0; pair < kColumnTiles / 2; ++pair) {
        MultiplyTile(i, 2 * pair);
        MultiplyTile(i, 2 * pair + 1);
        if (i == kRowTiles - 1) reader_.LoadBPair(b_, pair, next);
      }
      reader_.LoadARow(a_[i], i, next);
    }
  }

  // Moves to the next stage.
  GEMMD_DEVICE void Advance(Turn& read) {
    const bool is_first = read.Next();
    reader_.Move(is_first ? Layout::kStageBytes - Layout::kStagesBytes : Layout::kStageBytes);
  }

  // ------------------------------------------------------------ global to shared

  GEMMD_DEVICE void StartLoads() {
    if constexpr (Step::kTensorLoads) {
      if (thread_ == 0) {
        ptx::PrefetchTensorMap(&params_.a);
        ptx::PrefetchTensorMap(&params_.b);
        stages_.InitBarriers();
      }
      ptx::SyncThreads();
    } else {
      copies_.Start(params_.gemm, thread_, corner_);
    }
  }

  // Steps with TMA: thread 0 fills the stage, and past the last tile nothing does. Steps with
  // cp.async: a thread's copies are one group; past the last tile the group is empty, so that waits
  // count groups alike in every iteration.
  GEMMD_DEVICE void IssueTile(std::int32_t k_tile, std::uint32_t stage) {
    if constexpr (Step::kTensorLoads) {
      if (thread_ == 0 && k_tile < k_tiles_) stages_.Fill(stage, k_tile * Step::kTileK);
    } else {
      if (k_tile < k_tiles_) {
        copies_.Issue(params_.gemm, thread_, k_tile * Step::kTileK, stages_.ATile(stage),
                      stages_.BTile(stage));
      }
      ptx::CopyAsyncCommit();
    }
  }

  // After it, with TMA the tile is visible; with cp.async this thread's part of it has landed.
  GEMMD_DEVICE void WaitTile(const Turn& read) {
    if constexpr (Step::kTensorLoads) {
      stages_.WaitFull(read);
    } else {
      ptx::CopyAsyncWait<Step::kStages - 2>();
    }
  }

  // ------------------------------------------------------------ main loops

  GEMMD_DEVICE void RunTiles() {
    for (int stage = 0; stage < Step::kStages - 1; ++stage) IssueTile(stage, stage);
    Turn read;
    std::uint32_t filled = Step::kStages - 1;
    for (std::int32_t k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      WaitTile(read);
      // Tile k_tile is visible, and everyone has read the stage of tile k_tile - 1, which is
      // filled next.
      ptx::SyncThreads();
      IssueTile(k_tile + Step::kStages - 1, filled);
      filled = read.stage;
      GEMMD_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        LoadFragments(step);
        Multiply();
      }
      Advance(read);
    }
    ptx::SyncThreads();  // the epilogue reuses the stages
  }

  // Fragments of a step load while the one before it multiplies, across tiles too; so a stage is
  // read, and may be filled again, a step before its last products.
  GEMMD_DEVICE void RunFragmentsAhead() {
    static_assert(Step::kTensorLoads, "stages are filled by one thread");
    const StageRefill<Step> refill(stages_, params_, thread_);
    refill.Begin();
    Turn read;
    stages_.WaitFull(read);
    LoadFragments(0);
    for (std::int32_t k = 0;; k += Step::kTileK) {
      GEMMD_UNROLL
      for (int step = 0; step < kSteps - 1; ++step) {
        MultiplyAndLoad(step + 1);
        if (step == 0) refill.DuringTile(k, read);
      }
      refill.HaveRead(k, read);
      Advance(read);
      if (k + Step::kTileK >= params_.gemm.k) break;
      stages_.WaitFull(read);
      MultiplyAndLoad(0);
    }
    Multiply();
    refill.Finish();
  }

  // ------------------------------------------------------------ epilogue

  // REQUIRES: everyone has read the stages.
  GEMMD_DEVICE void StoreTile() {
    const ptx::SharedAddress tile = stages_.ATile(0);
    if constexpr (Step::kBoxWarps > 0) {
      // TMA stores rows in units of 16 bytes: where N ends inside one, what follows is not ours.
      if (params_.gemm.n % 8 == 0 || corner_.column + kTileN <= params_.gemm.n) {
        StoreBox<Layout, Types>(params_.d, sum_, tile, corner_, thread_ / 32, lane_);
        return;
      }
    }
    mma::StageSums<Types, typename Layout::D>(sum_, tile, warp_row_, warp_column_, lane_);
    ptx::SyncThreads();
    mma::StoreStagedTile<typename Layout::D, Layout::kThreads>(params_.gemm, tile, corner_,
                                                               thread_);
  }

  const Params& params_;
  const std::uint32_t thread_;
  const std::uint32_t lane_;
  const std::uint32_t warp_row_;
  const std::uint32_t warp_column_;
  const mma::TileCorner corner_;
  const std::int32_t k_tiles_;
  const TensorStages<Step> stages_;
  Reader reader_;
  mma::TileCopies<typename Layout::A, typename Layout::B, Layout::kThreads> copies_;
  std::uint32_t a_[kRowTiles][4];  // fragments of one step
  typename Reader::B b_;
  typename Types::Accumulator sum_[kRowTiles][kColumnTiles];
};

template <class Step, class Types>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(BlockLayout<Step>::kThreads, Step::kBlocksPerMultiprocessor)
    TensorCopyGemm(const GEMMD_GRID_CONSTANT Params params) {
  Worker<Step, Types> worker(params);
  worker.Run();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
