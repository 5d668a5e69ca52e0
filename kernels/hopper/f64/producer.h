// The producer of the f64 product: keeps the ring of stages full, by TMA from one thread, or by
// copies of elements from four warps where a line does not start at a multiple of 16 bytes.
#pragma once

#include "kernels/hopper/f64/layout.h"
#include "kernels/hopper/f64/params.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

template <class Layout>
GEMMD_DEVICE std::int32_t StagesOfK(const ProductParams& params) {
  return (params.k + Layout::kStageK - 1) / Layout::kStageK;
}
GEMMD_DEVICE std::uint32_t TilesOf(const ProductParams& params) {
  return params.raster.tiles_m * params.raster.tiles_n;
}

// Where a box begins in its plane: x along lines, y across them.
struct Corner {
  std::int32_t x;
  std::int32_t y;
};
template <class Tile>
GEMMD_DEVICE Corner CornerOf(std::int32_t line, std::int32_t k, int box) {
  if constexpr (Tile::kIsKMajor) return {k + box * kSpan, line};
  return {line + box * kSpan, k};
}

template <class Tile>
GEMMD_DEVICE void LoadTile(ptx::SharedAddress to, const ptx::TensorMap* map, std::int32_t line,
                           std::int32_t k, ptx::SharedAddress full, ptx::CachePolicy policy) {
  // There are few registers, and time enough.
  GEMMD_NO_UNROLL
  for (int box = 0; box < Tile::kBoxes; ++box) {
    const Corner from = CornerOf<Tile>(line, k, box);
    ptx::TensorLoad2DCached(to + static_cast<std::uint32_t>(box * Tile::kBoxBytes), map, 2 * from.x,
                            from.y, full, policy);
  }
}

// Produces by TMA: one thread.
template <class Layout>
class Producer {
 public:
  GEMMD_DEVICE Producer(const ProductParams& params, const mma::Ring<Layout>& stages)
      : params_(params), stages_(stages), k_stages_(StagesOfK<Layout>(params)) {}

  GEMMD_DEVICE void Run() {
    const std::uint32_t tiles = TilesOf(params_);
    std::uint32_t tile = ptx::BlockIndexX();
    // Operands that no launch ahead writes are loaded before this one's turn, as far as the ring
    // reaches.
    std::int32_t ahead = 0;
    if (tile < tiles && (params_.rows_are_settled || params_.columns_are_settled)) {
      ahead = k_stages_ < Layout::kStages ? k_stages_ : Layout::kStages;
      LoadAhead(tile, ahead, true);
    }
    if (!params_.rows_are_settled || !params_.columns_are_settled) {
      ptx::WaitForPrecedingGrid();
      if (ahead > 0) LoadAhead(tile, ahead, false);
    }
    mma::RingPosition<Layout::kStages> ring;
    ring.parity = 1;  // every stage was empty to begin with
    ring.Skip(static_cast<std::uint32_t>(ahead));
    std::int32_t k_stage = ahead;
    for (; tile < tiles; tile += ptx::GridSizeX()) {
      const hopper::RasterTile at = hopper::TileAt(params_.raster, tile);
      GEMMD_NO_UNROLL
      for (; k_stage < k_stages_; ++k_stage) {
        ptx::MbarrierWait(stages_.Empty(ring.stage), ring.parity);
        ptx::MbarrierArriveExpect(stages_.Full(ring.stage), Layout::kStageBytes);
        LoadRows(ring.stage, at, k_stage);
        LoadColumns(ring.stage, at, k_stage);
        ring.Next();
      }
      k_stage = 0;
    }
  }

 private:
  // The first stages' operands: those that are settled, or the others.
  GEMMD_DEVICE void LoadAhead(std::uint32_t tile, std::int32_t stages, bool are_settled) const {
    const hopper::RasterTile at = hopper::TileAt(params_.raster, tile);
    GEMMD_NO_UNROLL
    for (std::int32_t i = 0; i < stages; ++i) {
      const auto stage = static_cast<std::uint32_t>(i);
      if (are_settled) ptx::MbarrierArriveExpect(stages_.Full(stage), Layout::kStageBytes);
      if (params_.rows_are_settled == are_settled) LoadRows(stage, at, i);
      if (params_.columns_are_settled == are_settled) LoadColumns(stage, at, i);
    }
  }

  GEMMD_DEVICE void LoadRows(std::uint32_t stage, const hopper::RasterTile& at,
                             std::int32_t k_stage) const {
    LoadTile<typename Layout::Rows>(stages_.Stage(stage), &params_.row_map,
                                    static_cast<std::int32_t>(at.row) * Layout::kTileRows,
                                    k_stage * Layout::kStageK, stages_.Full(stage),
                                    params_.row_policy);
  }

  GEMMD_DEVICE void LoadColumns(std::uint32_t stage, const hopper::RasterTile& at,
                                std::int32_t k_stage) const {
    LoadTile<typename Layout::Columns>(
        stages_.Stage(stage) + Layout::kColumnOffset, &params_.column_map,
        static_cast<std::int32_t>(at.column) * Layout::kTileColumns, k_stage * Layout::kStageK,
        stages_.Full(stage), ptx::CachePolicy::kNormal);
  }

  const ProductParams& params_;
  const mma::Ring<Layout>& stages_;
  const std::int32_t k_stages_;
};

// A thread's part of a tile: one element of every eighth line. Elements outside are zeros.
template <class Tile>
GEMMD_DEVICE void CopyTile(ptx::SharedAddress to, const Plane& plane, std::int32_t line,
                           std::int32_t k, std::uint32_t thread) {
  const std::uint32_t element = thread % kSpan;
  const std::uint32_t first = thread / kSpan;
  to += first * kSpanBytes + ((element / 2) ^ first) * 16 + element % 2 * 8;
  GEMMD_NO_UNROLL
  for (int box = 0; box < Tile::kBoxes; ++box) {
    const Corner corner = CornerOf<Tile>(line, k, box);
    const std::int32_t x = corner.x + static_cast<std::int32_t>(element);
    std::int32_t y = corner.y + static_cast<std::int32_t>(first);
    const std::int32_t end = x < plane.length ? plane.lines : 0;
    const double* from = plane.data + y * plane.stride + x;
    GEMMD_NO_UNROLL
    for (int i = 0; i < Tile::kBoxLines; i += 8) {
      const bool is_inside = y < end;
      ptx::CopyAsync8(to, is_inside ? from : plane.data, is_inside ? 8 : 0);
      to += 8 * kSpanBytes;
      from += 8 * plane.stride;
      y += 8;
    }
  }
}

// Produces by elements: every thread of the producer's warpgroup. A stage is full once each has
// said that its own copies have landed, which it does some stages later, so that several are on
// their way.
template <class Layout>
GEMMD_DEVICE void ProduceByElements(const ProductParams& params, const mma::Ring<Layout>& stages,
                                    std::uint32_t thread) {
  constexpr int kUnderWay = Layout::kStages / 2;
  ptx::WaitForPrecedingGrid();
  const std::int32_t k_stages = StagesOfK<Layout>(params);
  mma::RingPosition<Layout::kStages> ring;
  ring.parity = 1;
  mma::RingPosition<Layout::kStages> landed;
  int under_way = 0;
  for (std::uint32_t tile = ptx::BlockIndexX(); tile < TilesOf(params); tile += ptx::GridSizeX()) {
    const hopper::RasterTile at = hopper::TileAt(params.raster, tile);
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 0; k_stage < k_stages; ++k_stage) {
      ptx::MbarrierWait(stages.Empty(ring.stage), ring.parity);
      const ptx::SharedAddress stage = stages.Stage(ring.stage);
      CopyTile<typename Layout::Rows>(stage, params.rows,
                                      static_cast<std::int32_t>(at.row) * Layout::kTileRows,
                                      k_stage * Layout::kStageK, thread);
      CopyTile<typename Layout::Columns>(
          stage + Layout::kColumnOffset, params.columns,
          static_cast<std::int32_t>(at.column) * Layout::kTileColumns, k_stage * Layout::kStageK,
          thread);
      ptx::CopyAsyncCommit();
      ring.Next();
      if (++under_way <= kUnderWay) continue;
      ptx::CopyAsyncWait<kUnderWay>();
      ptx::MbarrierArrive(stages.Full(landed.stage));
      landed.Next();
      --under_way;
    }
  }
  ptx::CopyAsyncWait<0>();
  for (; under_way > 0; --under_way) {
    ptx::MbarrierArrive(stages.Full(landed.stage));
    landed.Next();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
