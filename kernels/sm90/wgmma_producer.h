// The producer: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "kernels/ptx/grid_dependency.h"
#include "kernels/sm90/wgmma_pipeline.h"

namespace gemmd::sm90 {
inline namespace GEMMD_BACKEND {

// A tile's share of this block: the whole of it, or what it multicasts to `mask`. `line` is
// the tile's first row or column, `share` this block's part of what the cluster shares.
template <class Tile, int kShares>
GEMMD_DEVICE void LoadOperand(ptx::SharedAddress to, const ptx::TensorMap* map, std::int32_t k,
                              std::int32_t line, std::uint32_t share, std::uint32_t mask,
                              ptx::SharedAddress full, ptx::CachePolicy policy) {
  const auto step = static_cast<std::int32_t>(share) * Tile::kShareStep;
  const ptx::SharedAddress offset = share * (Tile::kShareStep * kSpanBytes);
  if constexpr (Tile::kIsKMajor) {
    if constexpr (kShares == 1) {
      ptx::TensorLoad2DCached(to, map, k, line, full, policy);
    } else {
      ptx::TensorLoad2DMulticastCached(to + offset, map, k, line + step, full, mask, policy);
    }
  } else {
    GEMMD_UNROLL
    for (int span = 0; span < Tile::kSpans; ++span) {
      const ptx::SharedAddress at = to + span * Tile::kSpanBlock + offset;
      const std::int32_t x = line + span * kSpan;
      if constexpr (kShares == 1) {
        ptx::TensorLoad2DCached(at, map, x, k, full, policy);
      } else {
        ptx::TensorLoad2DMulticastCached(at, map, x, k + step, full, mask, policy);
      }
    }
  }
}

template <class Layout>
GEMMD_DEVICE void Produce(const WgmmaGemmParams& params, const Block<Layout>& block) {
  const std::uint32_t tiles = params.tiles_m * params.tiles_n;
  const std::int32_t k_blocks = BlocksOfK(params);
  // Blocks with this one's columns lie side by side; those with its rows, kClusterM apart.
  const std::uint32_t column_mask = ((1u << Layout::kClusterM) - 1)
                                    << (block.rank_n * Layout::kClusterM);
  const std::uint32_t row_mask = (Layout::kClusterN == 2 ? 1u | 1u << Layout::kClusterM : 1u)
                                 << block.rank_m;
  RingPosition<Layout> at;
  at.parity = 1;  // every stage is empty to begin with
  TileCorner corner = CornerOf(params, block, block.cluster);
  ptx::WaitForPrecedingGrid();
  for (std::uint32_t tile = block.cluster; tile < tiles; tile += block.clusters) {
    if (tile != block.cluster) corner = CornerOf(params, block, tile);
    for (std::int32_t k_block = 0; k_block < k_blocks; ++k_block) {
      const ptx::SharedAddress stage = block.Stage(at.stage);
      const ptx::SharedAddress full = block.Full(at.stage);
      ptx::MbarrierWait(block.Empty(at.stage), at.parity);
      ptx::MbarrierArriveExpect(full, params.stage_bytes);
      LoadOperand<typename Layout::Rows, Layout::kClusterN>(stage, &params.rows, k_block * kTileK,
                                                            corner.m, block.rank_n, row_mask, full,
                                                            ptx::CachePolicy::kNormal);
      LoadOperand<typename Layout::Columns, Layout::kClusterM>(
          stage + Layout::Rows::kBytes, &params.columns, k_block * kTileK, corner.n, block.rank_m,
          column_mask, full, params.column_policy);
      at.Next();
    }
  }
}

// Asks the first tile's boxes into the L2 while the grid ahead still runs. A hint, so that it
// needs no order: the L2 is where that grid's writes arrive too. Blocks that share a row or a
// column of tiles share its boxes. REQUIRES: K-major operands.
template <class Layout>
GEMMD_DEVICE void PrefetchFirstTile(const WgmmaGemmParams& params, const Block<Layout>& block) {
  if (block.cluster >= params.tiles_m * params.tiles_n) return;
  const std::int32_t k_blocks = BlocksOfK(params);
  const auto wanted = static_cast<std::int32_t>(params.prefetched);
  const std::int32_t last = k_blocks < wanted ? k_blocks : wanted;
  const TileCorner corner = CornerOf(params, block, block.cluster);
  const std::int32_t tile_m = corner.m / (Layout::kTileM * Layout::kClusterM);
  const std::int32_t tile_n = corner.n / (Layout::kTileN * Layout::kClusterN);
  const auto tiles_m = static_cast<std::int32_t>(params.tiles_m);
  const auto tiles_n = static_cast<std::int32_t>(params.tiles_n);
  const std::int32_t row =
      corner.m + static_cast<std::int32_t>(block.rank_n) * Layout::Rows::kShareStep;
  const std::int32_t column =
      corner.n + static_cast<std::int32_t>(block.rank_m) * Layout::Columns::kShareStep;
  for (std::int32_t k_block = tile_n % tiles_n; k_block < last; k_block += tiles_n) {
    ptx::TensorPrefetch2D(&params.rows, k_block * kTileK, row);
  }
  for (std::int32_t k_block = tile_m % tiles_m; k_block < last; k_block += tiles_m) {
    ptx::TensorPrefetch2D(&params.columns, k_block * kTileK, column);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm90
