// The producer: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "kernels/ptx/grid_dependency.h"
#include "kernels/sm90/wgmma_pipeline.h"

namespace gemmd::sm90 {
inline namespace GEMMD_BACKEND {

// A tile's share of this block: the whole of it, or what it multicasts to `mask`. `line` is
// the tile's first row or column, `share` this block's part of what the cluster shares, `depth`
// the problem's place in a map of a batch.
template <class Tile, int kShares, bool kIsBatch>
GEMMD_DEVICE void LoadOperand(ptx::SharedAddress to, const ptx::TensorMap* map, std::int32_t k,
                              std::int32_t line, std::int32_t depth, std::uint32_t share,
                              std::uint32_t mask, ptx::SharedAddress full,
                              ptx::CachePolicy policy) {
  static_assert(kShares == 1 || !kIsBatch);
  const auto step = static_cast<std::int32_t>(share) * Tile::kShareStep;
  const ptx::SharedAddress offset = share * (Tile::kShareStep * kSpanBytes);
  const auto load = [&](ptx::SharedAddress at, std::int32_t x, std::int32_t y) {
    if constexpr (kIsBatch) {
      ptx::TensorLoad3DCached(at, map, x, y, depth, full, policy);
    } else if constexpr (kShares == 1) {
      ptx::TensorLoad2DCached(at, map, x, y, full, policy);
    } else {
      ptx::TensorLoad2DMulticastCached(at + offset, map, x, y + step, full, mask, policy);
    }
  };
  if constexpr (Tile::kIsKMajor) {
    load(to, k, line);
  } else {
    GEMMD_UNROLL
    for (int span = 0; span < Tile::kSpans; ++span) {
      load(to + span * Tile::kSpanBlock, line + span * kSpan, k);
    }
  }
}

// Of the maps that a tile needs.
template <class Layout, class Params>
GEMMD_DEVICE void PrefetchMaps(const Params& params, const Block<Layout>& block,
                               std::uint32_t tile) {
  const WgmmaOperands& operands = OperandsOf(params, CornerOf(params, block, tile));
  ptx::PrefetchTensorMap(&operands.rows);
  ptx::PrefetchTensorMap(&operands.columns);
  if (params.stores_by_map) ptx::PrefetchTensorMap(&operands.d);
}

template <class Layout, class Params>
GEMMD_DEVICE void Produce(const Params& params, const Block<Layout>& block) {
  const std::uint32_t tiles = TilesOf(params);
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
    const WgmmaOperands& operands = OperandsOf(params, corner);
    const std::int32_t depth = DepthOf(params, corner);
    if constexpr (Params::kIsBatch) {
      if (tile + block.clusters < tiles) PrefetchMaps(params, block, tile + block.clusters);
    }
    for (std::int32_t k_block = 0; k_block < k_blocks; ++k_block) {
      const ptx::SharedAddress stage = block.Stage(at.stage);
      const ptx::SharedAddress full = block.Full(at.stage);
      ptx::MbarrierWait(block.Empty(at.stage), at.parity);
      ptx::MbarrierArriveExpect(full, params.stage_bytes);
      LoadOperand<typename Layout::Rows, Layout::kClusterN, Params::kIsBatch>(
          stage, &operands.rows, k_block * kTileK, corner.m, depth, block.rank_n, row_mask, full,
          ptx::CachePolicy::kNormal);
      LoadOperand<typename Layout::Columns, Layout::kClusterM, Params::kIsBatch>(
          stage + Layout::Rows::kBytes, &operands.columns, k_block * kTileK, corner.n, depth,
          block.rank_m, column_mask, full, params.column_policy);
      at.Next();
    }
  }
}

// Asks the first tile's boxes into the L2 while the grid ahead still runs. A hint, so that it
// needs no order: the L2 is where that grid's writes arrive too. Blocks that share a row or a
// column of tiles share its boxes. REQUIRES: K-major operands of one problem.
template <class Layout>
GEMMD_DEVICE void PrefetchFirstTile(const WgmmaGemmParams& params, const Block<Layout>& block) {
  const WgmmaOperands& operands = params.operands[0];
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
    ptx::TensorPrefetch2D(&operands.rows, k_block * kTileK, row);
  }
  for (std::int32_t k_block = tile_m % tiles_m; k_block < last; k_block += tiles_m) {
    ptx::TensorPrefetch2D(&operands.columns, k_block * kTileK, column);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm90
