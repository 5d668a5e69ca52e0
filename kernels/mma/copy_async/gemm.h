// A product by mma.sync whose operands come by cp.async. A step's values (served_step.h) say how:
// ladder A (workshop/ampere_mma) reaches the one that serves from simpler ones.
#pragma once

#include "kernels/mma/copy_async/shape.h"
#include "kernels/mma/half_gemm_params.h"
#include "kernels/mma/store_tile.h"
#include "kernels/mma/tile_copies.h"
#include "kernels/mma/tile_layout.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::copy_async {
inline namespace GEMMD_BACKEND {

// One thread's part in computing one tile of D.
template <class Step, class Types>
class Worker {
 public:
  GEMMD_DEVICE explicit Worker(const mma::HalfGemmParams& params)
      : params_(params),
        thread_(ptx::ThreadIndex()),
        lane_(thread_ % 32),
        shared_(ptx::SharedBase()),
        corner_(mma::RasterTile(ptx::BlockIndexX(), params, Step::kRasterGroup, Step::kTileM,
                                Step::kTileN)),
        k_tiles_((params.k + Step::kTileK - 1) / Step::kTileK) {
    const std::uint32_t warp = thread_ / 32;
    warp_row_ = warp % Step::kWarpsM * Shape::kWarpM;
    warp_column_ = warp / Step::kWarpsM * Shape::kWarpN;
    copies_.Start(params_, thread_, corner_);
  }

  GEMMD_DEVICE void Run() {
    if constexpr (Step::kPipelineFragments) {
      RunFragmentPipeline();
    } else if constexpr (Step::kBarriers == 1) {
      RunOneBarrier();
    } else {
      RunTwoBarriers();
    }
    StoreTile();
  }

 private:
  using Shape = BlockShape<Step>;
  using ALayout = mma::TileLayout<Step::kTileM, Step::kTileK, Step::kSwizzle>;
  using BLayout = mma::TileLayout<Step::kTileK, Step::kTileN, Step::kSwizzle>;
  using DLayout = mma::TileLayout<Step::kTileM, Step::kTileN, Step::kSwizzle>;

  static constexpr int kRowTiles = Shape::kWarpM / 16;  // 16x8 tiles of D that a warp holds
  static constexpr int kColumnTiles = Shape::kWarpN / 8;
  static constexpr int kSteps = Step::kTileK / 16;  // mma.sync steps in a tile of K
  static_assert(kColumnTiles % 2 == 0, "LoadB() fills two");

  // The operands of one step of K.
  struct Fragments {
    std::uint32_t a[kRowTiles][4];
    std::uint32_t b[kColumnTiles][2];
  };

  GEMMD_DEVICE ptx::SharedAddress ATile(int stage) const {
    return shared_ + stage * Shape::kStageBytes;
  }
  GEMMD_DEVICE ptx::SharedAddress BTile(int stage) const { return ATile(stage) + ALayout::kBytes; }

  // ------------------------------------------------------------ global to shared

  // Issues the copies of the next tile of K as one group; past the last tile the group is
  // empty, so that waits count groups alike in every iteration.
  GEMMD_DEVICE void IssueTile(int k_tile, int stage) {
    if (k_tile < k_tiles_) {
      copies_.Issue(params_, thread_, k_tile * Step::kTileK, ATile(stage), BTile(stage));
    }
    ptx::CopyAsyncCommit();
  }

  // All stages but one, which IssueNextTile() goes on from.
  GEMMD_DEVICE void FillStages() {
    GEMMD_UNROLL
    for (int stage = 0; stage < Step::kStages - 1; ++stage) IssueTile(stage, stage);
  }

  // While tile k_tile is the one to multiply: fills the stage that the tile before it has left.
  GEMMD_DEVICE void IssueNextTile(int k_tile) {
    IssueTile(k_tile + Step::kStages - 1, (k_tile + Step::kStages - 1) % Step::kStages);
  }

  // ------------------------------------------------------------ shared to registers

  GEMMD_DEVICE void LoadFragments(Fragments& to, int stage, int step) const {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) LoadA(to.a[i], ATile(stage), warp_row_ + i * 16, step * 16);
    GEMMD_UNROLL
    for (int j = 0; j < kColumnTiles; j += 2) {
      LoadB(to.b[j], to.b[j + 1], BTile(stage), step * 16, warp_column_ + j * 8);
    }
  }

  // The 16x16 tile of A at (row, k), in the layout of mma_sync.h.
  GEMMD_DEVICE void LoadA(std::uint32_t (&a)[4], ptx::SharedAddress tile, std::uint32_t row,
                          std::uint32_t k) const {
    if constexpr (Step::kLoadsByMatrix) {
      ptx::LoadMatrix4(a, tile + ALayout::Chunk(row + lane_ % 16, k / 8 + lane_ / 16));
    } else {
      GEMMD_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::uint32_t at_row = row + lane_ / 4 + 8 * (i % 2);
        const std::uint32_t at_k = k + 2 * (lane_ % 4) + 8 * (i / 2);
        a[i] =
            Pair(tile + ALayout::Element(at_row, at_k), tile + ALayout::Element(at_row, at_k + 1));
      }
    }
  }

  // The 16x8 tiles of B at (k, column) and (k, column + 8).
  GEMMD_DEVICE void LoadB(std::uint32_t (&left)[2], std::uint32_t (&right)[2],
                          ptx::SharedAddress tile, std::uint32_t k, std::uint32_t column) const {
    if constexpr (Step::kLoadsByMatrix) {
      std::uint32_t both[4];
      ptx::LoadMatrix4Transposed(both,
                                 tile + BLayout::Chunk(k + lane_ % 16, column / 8 + lane_ / 16));
      left[0] = both[0];
      left[1] = both[1];
      right[0] = both[2];
      right[1] = both[3];
    } else {
      LoadBByElement(left, tile, k, column);
      LoadBByElement(right, tile, k, column + 8);
    }
  }

  GEMMD_DEVICE void LoadBByElement(std::uint32_t (&b)[2], ptx::SharedAddress tile, std::uint32_t k,
                                   std::uint32_t column) const {
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t at_k = k + 2 * (lane_ % 4) + 8 * i;
      const std::uint32_t at_column = column + lane_ / 4;
      b[i] = Pair(tile + BLayout::Element(at_k, at_column),
                  tile + BLayout::Element(at_k + 1, at_column));
    }
  }

  static GEMMD_DEVICE std::uint32_t Pair(ptx::SharedAddress low, ptx::SharedAddress high) {
    const std::uint32_t low_half = ptx::LoadShared<std::uint16_t>(low);
    const std::uint32_t high_half = ptx::LoadShared<std::uint16_t>(high);
    return low_half | (high_half << 16);
  }

  // ------------------------------------------------------------ main loops

  GEMMD_DEVICE void Multiply(const Fragments& fragments) {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < kColumnTiles; ++j) {
        Types::MultiplyAdd(sum_[i][j], fragments.a[i], fragments.b[j]);
      }
    }
  }

  GEMMD_DEVICE void MultiplyStage(int stage) {
    GEMMD_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      Fragments fragments;
      LoadFragments(fragments, stage, step);
      Multiply(fragments);
    }
  }

  // With one stage nothing is in flight while a tile multiplies.
  GEMMD_DEVICE void RunTwoBarriers() {
    FillStages();
    for (int k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      IssueNextTile(k_tile);
      ptx::CopyAsyncWait<Step::kStages - 1>();
      ptx::SyncThreads();  // everyone's copies of tile k_tile are visible
      MultiplyStage(k_tile % Step::kStages);
      ptx::SyncThreads();  // everyone has read the stage: it may be filled again
    }
  }

  GEMMD_DEVICE void RunOneBarrier() {
    FillStages();
    for (int k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      ptx::CopyAsyncWait<Step::kStages - 2>();
      // Tile k_tile is visible, and everyone has read the stage of tile k_tile - 1, which
      // the next copies fill.
      ptx::SyncThreads();
      IssueNextTile(k_tile);
      MultiplyStage(k_tile % Step::kStages);
    }
    ptx::SyncThreads();  // the epilogue reuses the stages
  }

  // Fragments of step s + 1 load while step s multiplies; the last step of a tile loads
  // the first fragments of the next one, so that no step waits for shared memory.
  GEMMD_DEVICE void RunFragmentPipeline() {
    FillStages();
    ptx::CopyAsyncWait<Step::kStages - 2>();
    ptx::SyncThreads();
    Fragments fragments[2];
    LoadFragments(fragments[0], 0, 0);
    for (int k_tile = 0; k_tile < k_tiles_; ++k_tile) {
      const int stage = k_tile % Step::kStages;
      GEMMD_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        if (step == kSteps - 1) {
          // As in RunOneBarrier(): the next tile is visible, this one's stage is read.
          ptx::CopyAsyncWait<Step::kStages - 2>();
          ptx::SyncThreads();
          if (k_tile + 1 < k_tiles_) {
            LoadFragments(fragments[(step + 1) % 2], (k_tile + 1) % Step::kStages, 0);
          }
        } else {
          LoadFragments(fragments[(step + 1) % 2], stage, step + 1);
        }
        if (step == kSteps / 2) IssueNextTile(k_tile);
        Multiply(fragments[step % 2]);
      }
    }
  }

  // ------------------------------------------------------------ epilogue

  // REQUIRES: everyone has read the stages.
  GEMMD_DEVICE void StoreTile() {
    mma::StageSums<Types, DLayout>(sum_, shared_, warp_row_, warp_column_, lane_);
    ptx::SyncThreads();
    mma::StoreStagedTile<DLayout, Shape::kThreads>(params_, shared_, corner_, thread_);
  }

  const mma::HalfGemmParams& params_;
  const std::uint32_t thread_;
  const std::uint32_t lane_;
  const ptx::SharedAddress shared_;
  const mma::TileCorner corner_;
  const std::int32_t k_tiles_;
  std::uint32_t warp_row_;
  std::uint32_t warp_column_;
  mma::TileCopies<ALayout, BLayout, Shape::kThreads> copies_;
  typename Types::Accumulator sum_[kRowTiles][kColumnTiles];
};

template <class Step, class Types>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(BlockShape<Step>::kThreads, Step::kBlocksPerMultiprocessor)
    CopyAsyncGemm(const GEMMD_GRID_CONSTANT mma::HalfGemmParams params) {
  Worker<Step, Types> worker(params);
  worker.Run();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::copy_async
