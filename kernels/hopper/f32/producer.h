// The producer of the f32 product: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/f32/layout.h"
#include "kernels/hopper/f32/params.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

template <class Layout>
using Block = mma::Ring<Layout>;

GEMMD_DEVICE std::int32_t StagesOfK(const F32Params& params) {
  return (params.k + kStageK - 1) / kStageK;
}
GEMMD_DEVICE std::uint32_t TilesOf(const F32Params& params) {
  return params.raster.tiles_m * params.raster.tiles_n;
}

template <class Layout, Major kRowMajor>
GEMMD_DEVICE void LoadRows(const F32Params& params, const Block<Layout>& block, std::uint32_t stage,
                           std::uint32_t tile_row, std::int32_t k_stage) {
  const auto row = static_cast<std::int32_t>(tile_row) * Layout::kTileRows;
  GEMMD_UNROLL
  for (int i = 0; i < kStageBlocks; ++i) {
    const ptx::SharedAddress to =
        block.Stage(stage) + static_cast<std::uint32_t>(i * Layout::kRowBytes);
    const std::int32_t k = (k_stage * kStageBlocks + i) * kBlockK;
    if constexpr (kRowMajor == Major::kK) {
      ptx::TensorLoad2DCached(to, &params.rows, k, row, block.Full(stage), params.row_policy);
    } else {
      GEMMD_UNROLL
      for (int span = 0; span < Layout::kTileRows / kRowSpan; ++span) {
        ptx::TensorLoad2DCached(to + static_cast<std::uint32_t>(span * kRowSpanBytes), &params.rows,
                                row + span * kRowSpan, k, block.Full(stage), params.row_policy);
      }
    }
  }
}

template <class Layout>
GEMMD_DEVICE void LoadParts(const F32Params& params, const Block<Layout>& block,
                            std::uint32_t stage, std::uint32_t tile_column, std::int32_t k_stage) {
  const std::int32_t piece = static_cast<std::int32_t>(tile_column) * StagesOfK(params) + k_stage;
  ptx::TensorLoad2DCached(block.Stage(stage) + Layout::kPartOffset, &params.parts, 0,
                          piece * Layout::kPieceLines, block.Full(stage),
                          ptx::CachePolicy::kNormal);
}

template <class Layout, Major kRowMajor>
GEMMD_DEVICE void Produce(const F32Params& params, const Block<Layout>& block) {
  const std::int32_t k_stages = StagesOfK(params);
  const std::uint32_t tiles = TilesOf(params);
  std::uint32_t tile = ptx::BlockIndexX();
  // The launch ahead is the split. It does not write rows, and lets this launch start only once no
  // other one writes them either (split.h). So rows of the first stages are loaded before its parts
  // are there.
  std::int32_t ahead = 0;
  if (tile < tiles) {
    ahead = k_stages < Layout::kStages ? k_stages : Layout::kStages;
    const hopper::RasterTile at = hopper::TileAt(params.raster, tile);
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 0; k_stage < ahead; ++k_stage) {
      LoadRows<Layout, kRowMajor>(params, block, static_cast<std::uint32_t>(k_stage), at.row,
                                  k_stage);
    }
  }
  ptx::WaitForPrecedingGrid();
  mma::RingPosition<Layout::kStages> ring;
  ring.parity = 1;  // every stage was empty to begin with
  for (; tile < tiles; tile += ptx::GridSizeX()) {
    const hopper::RasterTile at = hopper::TileAt(params.raster, tile);
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 0; k_stage < k_stages; ++k_stage) {
      ptx::MbarrierWait(block.Empty(ring.stage), ring.parity);
      ptx::MbarrierArriveExpect(block.Full(ring.stage), Layout::kStageBytes);
      if (ahead > 0) {
        --ahead;
      } else {
        LoadRows<Layout, kRowMajor>(params, block, ring.stage, at.row, k_stage);
      }
      LoadParts<Layout>(params, block, ring.stage, at.column, k_stage);
      ring.Next();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
