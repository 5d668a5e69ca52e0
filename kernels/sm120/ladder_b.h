// The kernels of ladder B (ladder_b_steps.h says what each step changes).
#pragma once

#include "kernels/mma/store_tile.h"
#include "kernels/mma/tile_copies.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/sm120/ladder_b_params.h"
#include "kernels/sm120/ladder_b_steps.h"
#include "kernels/sm120/tensor_stages.h"
#include "kernels/sm120/warp_fragments.h"

namespace gemmd::sm120 {
inline namespace GEMMD_BACKEND {

// One thread's part in computing one tile of D.
template <class Step, class Types>
class LadderBWorker {
 public:
  GEMMD_DEVICE explicit LadderBWorker(const LadderBParams& params)
      : params_(params),
        thread_(ptx::ThreadIndex()),
        lane_(thread_ % 32),
        warp_row_(thread_ / 32 / kWarpsN * kWarpM),
        warp_column_(thread_ / 32 % kWarpsN * kWarpN),
        corner_(
            mma::RasterTile(ptx::BlockIndexX(), params.gemm, Step::kRasterGroup, kTileM, kTileN)),
        k_tiles_((params.gemm.k + Step::kTileK - 1) / Step::kTileK),
        stages_(params, ptx::SharedBase(), corner_),
        reader_(warp_row_, warp_column_, lane_) {}

  GEMMD_DEVICE void Run() {
    if constexpr (Step::kTensorLoads) {
      RunTensorLoads();
    } else {
      RunCopies();
    }
    StoreTile();
  }

 private:
  using Layout = LadderBLayout<Step>;
  using Turn = typename TensorStages<Step>::Turn;
  static constexpr int kRowTiles = kWarpM / 16;  // 16x8 tiles of D that a warp holds
  static constexpr int kColumnTiles = kWarpN / 8;
  static constexpr int kSteps = Step::kTileK / 16;  // mma.sync steps in a tile of K
  using Reader = FragmentReader<typename Layout::A, typename Layout::B, kRowTiles, kColumnTiles>;
  using Fragments = typename Reader::Fragments;

  GEMMD_DEVICE void LoadFragments(Fragments& to, std::uint32_t stage, int step) const {
    reader_.Load(to, stages_.ATile(stage), stages_.BTile(stage), step);
  }

  GEMMD_DEVICE void Multiply(const Fragments& fragments) {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < kColumnTiles; ++j) {
        Types::MultiplyAdd(sum_[i][j], fragments.a[i], fragments.b[j]);
      }
    }
  }

  // ------------------------------------------------------------ cp.async

  // Issues the copies of a tile of K as one group; past the last tile the group is empty, so
  // that waits count groups alike in every iteration.
  GEMMD_DEVICE void IssueTile(std::int32_t k_tile, std::uint32_t stage) {
    if (k_tile < k_tiles_) {
      copies_.Issue(params_.gemm, thread_, k_tile * Step::kTileK, stages_.ATile(stage),
                    stages_.BTile(stage));
    }
    ptx::CopyAsyncCommit();
  }

  GEMMD_DEVICE void RunCopies() {
    copies_.Start(params_.gemm, thread_, corner_);
    for (int stage = 0; stage < Step::kStages - 1; ++stage) IssueTile(stage, stage);
    Turn read;
    std::uint32_t filled = Step::kStages - 1;
    for (std::int32_t k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      ptx::CopyAsyncWait<Step::kStages - 2>();
      // Tile k_tile is visible, and everyone has read the stage of tile k_tile - 1, which the
      // next copies fill.
      ptx::SyncThreads();
      IssueTile(k_tile + Step::kStages - 1, filled);
      filled = read.stage;
      GEMMD_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        Fragments fragments;
        LoadFragments(fragments, read.stage, step);
        Multiply(fragments);
      }
      read.Advance();
    }
    ptx::SyncThreads();  // the epilogue reuses the stages
  }

  // ------------------------------------------------------------ TMA

  // Fragments of a step load while the one before it multiplies, across tiles too.
  GEMMD_DEVICE void RunTensorLoads() {
    if (thread_ == 0) {
      ptx::PrefetchTensorMap(&params_.a);
      ptx::PrefetchTensorMap(&params_.b);
      stages_.InitBarriers();
    }
    ptx::SyncThreads();
    if (thread_ == 0) {
      for (int stage = 0; stage < Step::kStages && stage < k_tiles_; ++stage) {
        stages_.Fill(stage, stage);
      }
    }
    Turn read;
    Turn freed;
    Fragments fragments[2];
    stages_.WaitFull(read);
    LoadFragments(fragments[0], read.stage, 0);
    for (std::int32_t k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      GEMMD_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        Fragments& next = fragments[(step + 1) % 2];
        if (step < kSteps - 1) {
          LoadFragments(next, read.stage, step + 1);
          if (Step::kReleaseByWarps && step == 0 && k_tile > 0) RefillFreed(k_tile - 1, freed);
        } else {
          ReleaseStage(k_tile, read.stage);
          read.Advance();
          if (k_tile + 1 < k_tiles_) {
            stages_.WaitFull(read);
            LoadFragments(next, read.stage, 0);
          }
        }
        Multiply(fragments[step % 2]);
      }
    }
    if constexpr (Step::kReleaseByWarps) ptx::SyncThreads();  // the epilogue reuses the stages
  }

  // This warp has read tile k_tile. By the block: everyone has, so that the stage is filled
  // again at once.
  GEMMD_DEVICE void ReleaseStage(std::int32_t k_tile, std::uint32_t stage) {
    if constexpr (Step::kReleaseByWarps) {
      stages_.ReleaseByWarp(stage, lane_);
    } else {
      ptx::SyncThreads();
      if (thread_ == 0 && k_tile + Step::kStages < k_tiles_) {
        stages_.Fill(stage, k_tile + Step::kStages);
      }
    }
  }

  // By warps: the stage of tile k_tile, a step later than this warp has released it, when the
  // others are likely to have done so.
  GEMMD_DEVICE void RefillFreed(std::int32_t k_tile, Turn& freed) {
    if (thread_ == 0 && k_tile + Step::kStages < k_tiles_) {
      stages_.WaitFree(freed);
      stages_.Fill(freed.stage, k_tile + Step::kStages);
    }
    freed.Advance();
  }

  // ------------------------------------------------------------ epilogue

  // REQUIRES: everyone has read the stages.
  GEMMD_DEVICE void StoreTile() {
    if constexpr (Step::kTensorStores) {
      // TMA stores rows in units of 16 bytes: where N ends inside one, what follows is not ours.
      if (params_.gemm.n % 8 == 0 || corner_.column + kTileN <= params_.gemm.n) {
        StoreWarpBox();
        return;
      }
    }
    const ptx::SharedAddress tile = stages_.ATile(0);
    mma::StageSums<Types, typename Layout::D>(sum_, tile, warp_row_, warp_column_, lane_);
    ptx::SyncThreads();
    mma::StoreStagedTile<typename Layout::D, kThreads>(params_.gemm, tile, corner_, thread_);
  }

  // A warp stores what it computed: no warp waits for another.
  GEMMD_DEVICE void StoreWarpBox() {
    using Box = typename Layout::WarpD;
    const ptx::SharedAddress box = stages_.ATile(0) + thread_ / 32 * Box::kBytes;
    // Of the four 8x8 matrices of two column tiles, a lane addresses one row.
    const std::uint32_t row = lane_ % 16;
    const std::uint32_t chunk = lane_ / 16;
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < kColumnTiles; j += 2) {
        const std::uint32_t words[4] = {Types::Output(sum_[i][j], 0), Types::Output(sum_[i][j], 1),
                                        Types::Output(sum_[i][j + 1], 0),
                                        Types::Output(sum_[i][j + 1], 1)};
        ptx::StoreMatrix4(box + Box::Chunk(i * 16 + row, j + chunk), words);
      }
    }
    ptx::FenceProxyAsync();
    ptx::SyncWarp();
    if (lane_ == 0) {
      ptx::TensorStore2D(&params_.d, box, corner_.column + static_cast<std::int32_t>(warp_column_),
                         corner_.row + static_cast<std::int32_t>(warp_row_));
      ptx::BulkCommit();
      ptx::BulkWaitRead<0>();
    }
  }

  const LadderBParams& params_;
  const std::uint32_t thread_;
  const std::uint32_t lane_;
  const std::uint32_t warp_row_;
  const std::uint32_t warp_column_;
  const mma::TileCorner corner_;
  const std::int32_t k_tiles_;
  const TensorStages<Step> stages_;
  const Reader reader_;
  mma::TileCopies<typename Layout::A, typename Layout::B, kThreads> copies_;
  typename Types::Accumulator sum_[kRowTiles][kColumnTiles];
};

template <class Step, class Types>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kThreads, Step::kBlocksPerMultiprocessor)
    LadderB(const GEMMD_GRID_CONSTANT LadderBParams params) {
  LadderBWorker<Step, Types> worker(params);
  worker.Run();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120
