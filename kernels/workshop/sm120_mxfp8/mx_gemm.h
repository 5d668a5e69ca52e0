// MXFP8 on ladder B's pipeline: stages by TMA, fragments one step ahead, across tiles too, and
// products by block-scaled mma.sync.
#pragma once

#include <cstdint>

#include "kernels/mma/half_gemm_params.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/mma_sync_scaled.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/workshop/sm120_mxfp8/mx_fragments.h"
#include "kernels/workshop/sm120_mxfp8/mx_params.h"

namespace gemmd::sm120_mxfp8 {
inline namespace GEMMD_BACKEND {

// One thread's part in computing one tile of D, from A of type kA and B of type kB.
template <ptx::MmaMxType kA, ptx::MmaMxType kB>
class MxWorker {
 public:
  GEMMD_DEVICE explicit MxWorker(const MxParams& params)
      : params_(params),
        thread_(ptx::ThreadIndex()),
        lane_(thread_ % 32),
        warp_row_(thread_ / 32 / Layout::kWarpsN * kWarpM),
        warp_column_(thread_ / 32 % Layout::kWarpsN * Mx::kWarpN),
        corner_(mma::RasterTile(ptx::BlockIndexX(), params, Mx::kRasterGroup, kTileM, kTileN)),
        reader_(ring_.Stage(0), warp_row_, warp_column_, lane_) {}

  GEMMD_DEVICE void Run() {
    StartLoads();
    WaitFull();
    scales_ = reader_.LoadScales();
    LoadFragments(0);
    for (std::int32_t k = 0;; k += Mx::kTileK) {
      GEMMD_UNROLL
      for (int step = 0; step < kSteps - 1; ++step) MultiplyAndLoad(step, step + 1);
      Refill(k);
      const bool is_first = read_.Next();
      reader_.Move(is_first ? Layout::kStageBytes - Layout::kFull : Layout::kStageBytes);
      if (k + Mx::kTileK >= params_.k) break;
      WaitFull();
      const MxScales next = reader_.LoadScales();
      MultiplyAndLoad(kSteps - 1, 0);
      scales_ = next;
    }
    Multiply(kSteps - 1);
    StoreTile();
  }

 private:
  using Layout = MxLayout;
  static constexpr int kRowTiles = kWarpM / 16;  // 16x8 tiles of D that a warp holds
  static constexpr int kColumnTiles = Mx::kWarpN / 8;
  static constexpr int kSteps = Mx::kTileK / 32;  // products of 32 of K in a tile of it

  // ------------------------------------------------------------ global to shared

  GEMMD_DEVICE void StartLoads() const {
    if (thread_ == 0) {
      ptx::PrefetchTensorMap(&params_.a);
      ptx::PrefetchTensorMap(&params_.b);
      ptx::PrefetchTensorMap(&params_.a_scales);
      ptx::PrefetchTensorMap(&params_.b_scales);
      for (std::uint32_t stage = 0; stage < Mx::kStages; ++stage) {
        ptx::MbarrierInit(ring_.Full(stage), 1);
      }
      ptx::FenceMbarrierInit();
    }
    ptx::SyncThreads();
    for (int stage = 0; stage < Mx::kStages; ++stage) {
      const std::int32_t k = stage * Mx::kTileK;
      if (thread_ == 0 && k < params_.k) Fill(stage, k);
    }
  }

  // One thread fills the stage, once it is free, with the tile of K that starts at k. Elements
  // outside the matrices become zero; tiles of scales are whole.
  GEMMD_DEVICE void Fill(std::uint32_t stage, std::int32_t k) const {
    const ptx::SharedAddress at = ring_.Stage(stage);
    const ptx::SharedAddress full = ring_.Full(stage);
    ptx::MbarrierArriveExpect(full, Layout::kStageBytes);
    ptx::TensorLoad2D(at, &params_.a, k, corner_.row, full);
    ptx::TensorLoad2D(at + Layout::A::kBytes, &params_.b, k, corner_.column, full);
    ptx::TensorLoad4D(at + Layout::kAScales, &params_.a_scales,
                      {0, 0, k / Mx::kTileK, corner_.row / kTileM}, full);
    ptx::TensorLoad4D(at + Layout::kBScales, &params_.b_scales,
                      {0, 0, k / Mx::kTileK, corner_.column / kTileN}, full);
  }

  // The last fragments of the tile at k are loaded: behind a barrier its stage is filled again.
  GEMMD_DEVICE void Refill(std::int32_t k) const {
    constexpr std::int32_t kAhead = Mx::kStages * Mx::kTileK;
    ptx::SyncThreads();
    if (thread_ == 0 && k + kAhead < params_.k) Fill(read_.stage, k + kAhead);
  }

  GEMMD_DEVICE void WaitFull() const { ptx::MbarrierWait(ring_.Full(read_.stage), read_.parity); }

  // ------------------------------------------------------------ products

  GEMMD_DEVICE void LoadFragments(int step) {
    GEMMD_UNROLL
    for (int pair = 0; pair < kColumnTiles / 2; ++pair) reader_.LoadBPair(b_, pair, step);
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) reader_.LoadARow(a_[i], i, step);
  }

  // Multiplies 32 of K, whose scales are byte `step` of the tile's words.
  GEMMD_DEVICE void MultiplyTile(int i, int j, int step) {
    ptx::MmaMx<kA, kB>(sum_[i][j], a_[i], b_[j], {scales_.a[i / 2], step, i % 2},
                       {scales_.b[j / 4], step, j % 4});
  }

  GEMMD_DEVICE void Multiply(int step) {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < kColumnTiles; ++j) MultiplyTile(i, j, step);
    }
  }

  // Multiplies one step of K while the fragments of step `next` load, each into the registers that
  // its last product leaves.
  GEMMD_DEVICE void MultiplyAndLoad(int step, int next) {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int pair = 0; pair < kColumnTiles / 2; ++pair) {
        MultiplyTile(i, 2 * pair, step);
        MultiplyTile(i, 2 * pair + 1, step);
        if (i == kRowTiles - 1) reader_.LoadBPair(b_, pair, next);
      }
      reader_.LoadARow(a_[i], i, next);
    }
  }

  // ------------------------------------------------------------ D

  // The four lanes of a quad have 32 bytes of a row side by side: whole sectors without staging.
  GEMMD_DEVICE void StoreTile() const {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      GEMMD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::int32_t row =
            corner_.row + static_cast<std::int32_t>(warp_row_ + i * 16 + half * 8 + lane_ / 4);
        if (row >= params_.m) continue;
        GEMMD_UNROLL
        for (int j = 0; j < kColumnTiles; ++j) {
          const std::int32_t column =
              corner_.column + static_cast<std::int32_t>(warp_column_ + j * 8 + lane_ % 4 * 2);
          StorePair(row, column, sum_[i][j][2 * half], sum_[i][j][2 * half + 1]);
        }
      }
    }
  }

  GEMMD_DEVICE void StorePair(std::int32_t row, std::int32_t column, float first,
                              float second) const {
    float* const to = params_.d + row * params_.ldd + column;
    if (params_.is_aligned && column + 1 < params_.n) {
      ptx::StoreGlobal(reinterpret_cast<Pair*>(to), Pair{first, second});
      return;
    }
    if (column < params_.n) ptx::StoreGlobal(to, first);
    if (column + 1 < params_.n) ptx::StoreGlobal(to + 1, second);
  }

  struct alignas(8) Pair {
    float first;
    float second;
  };

  const MxParams& params_;
  const std::uint32_t thread_;
  const std::uint32_t lane_;
  const std::uint32_t warp_row_;
  const std::uint32_t warp_column_;
  const mma::TileCorner corner_;
  const mma::Ring<Layout> ring_ = {};
  mma::RingPosition<Mx::kStages> read_;
  MxFragmentReader reader_;
  MxScales scales_;
  std::uint32_t a_[kRowTiles][4];  // fragments of one step
  MxFragmentReader::B b_;
  float sum_[kRowTiles][kColumnTiles][4] = {};
};

template <ptx::MmaMxType kA, ptx::MmaMxType kB>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(MxLayout::kThreads, Mx::kBlocksPerMultiprocessor)
    MxGemm(const GEMMD_GRID_CONSTANT MxParams params) {
  MxWorker<kA, kB> worker(params);
  worker.Run();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120_mxfp8
