// The producer: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "kernels/hopper/half/wgmma_pipeline.h"
#include "kernels/ptx/grid_dependency.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Loads this block's share of a tile: the whole of it, or a part that it multicasts to `mask`.
// `line` is the tile's first row or column, `share` this block's part of what the cluster shares,
// `depth` its place in a map of three dimensions.
template <class Tile, int kShares, bool kHasDepth>
GEMMD_DEVICE void LoadOperand(ptx::SharedAddress to, const ptx::TensorMap* map, std::int32_t k,
                              std::int32_t line, std::int32_t depth, std::uint32_t share,
                              std::uint32_t mask, ptx::SharedAddress full,
                              ptx::CachePolicy policy) {
  const auto step = static_cast<std::int32_t>(share) * Tile::kShareStep;
  const ptx::SharedAddress offset = share * (Tile::kShareStep * kSpanBytes);
  const auto load = [&](ptx::SharedAddress at, std::int32_t x, std::int32_t y) {
    if constexpr (kHasDepth && kShares == 1) {
      ptx::TensorLoad3DCached(at, map, x, y, depth, full, policy);
    } else if constexpr (kHasDepth) {
      ptx::TensorLoad3DMulticastCached(at + offset, map, x, y + step, depth, full, mask, policy);
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

// Prefetches the maps that a tile needs.
template <class Layout, class Params>
GEMMD_DEVICE void PrefetchMaps(const Params& params, const Block<Layout>& block,
                               std::uint32_t tile) {
  const WgmmaOperands& operands = OperandsOf(params, CornerOf(params, block, tile));
  ptx::PrefetchTensorMap(&operands.rows);
  ptx::PrefetchTensorMap(&operands.columns);
  if (params.stores_by_map) ptx::PrefetchTensorMap(&operands.d);
}

// The map that loads a tile's rows, and the bytes that a stage then gets.
struct RowLoads {
  const ptx::TensorMap* map;
  std::uint32_t stage_bytes;
};

template <class Layout, class Params>
GEMMD_DEVICE RowLoads RowLoadsOf(const Params& params, const TileCorner& corner) {
  if constexpr (Params::kIsGroups) {
    const auto rows = static_cast<std::uint32_t>(corner.m_end - corner.m);
    for (std::uint32_t i = 0; i < params.short_boxes; ++i) {
      const ShortBox& box = params.short_box[i];
      if (rows > box.lines) continue;
      return {&box.rows, params.stage_bytes - (params.box_rows - box.lines) * kSpanBytes};
    }
  }
  return {&OperandsOf(params, corner).rows, params.stage_bytes};
}

// The loads of a block.
template <class Layout, class Params>
struct Loader {
  const Params& params;
  const Block<Layout>& block;

  GEMMD_DEVICE void LoadRows(const TileCorner& corner, const RowLoads& rows, std::uint32_t stage,
                             std::int32_t k_block) const {
    // Blocks with this one's rows lie kClusterM apart.
    const std::uint32_t mask = (Layout::kClusterN == 2 ? 1u | 1u << Layout::kClusterM : 1u)
                               << block.rank_m;
    LoadOperand<typename Layout::Rows, Layout::kClusterN, Params::kIsBatch>(
        block.Stage(stage), rows.map, k_block * params.k_step, corner.m, DepthOf(params, corner),
        block.rank_n, mask, block.Full(stage), ptx::CachePolicy::kNormal);
  }
  GEMMD_DEVICE void LoadColumns(const TileCorner& corner, std::uint32_t stage,
                                std::int32_t k_block) const {
    // Blocks with this one's columns lie side by side.
    const std::uint32_t mask = ((1u << Layout::kClusterM) - 1)
                               << (block.rank_n * Layout::kClusterM);
    LoadOperand<typename Layout::Columns, Layout::kClusterM, !Params::kIsOne>(
        block.Stage(stage) + Layout::Rows::kBytes, &OperandsOf(params, corner).columns,
        k_block * params.k_step, corner.n, DepthOf(params, corner), block.rank_m, mask,
        block.Full(stage), params.column_policy);
  }

  // The first blocks of K of the first tile, ahead of the grid's turn: the settled operand alone.
  GEMMD_DEVICE void LoadAhead(const TileCorner& corner, std::int32_t count) const {
    GEMMD_NO_UNROLL
    for (std::int32_t k_block = 0; k_block < count; ++k_block) {
      const auto stage = static_cast<std::uint32_t>(k_block);
      if (params.settled == SettledOperands::kRows) {
        LoadRows(corner, RowLoadsOf<Layout>(params, corner), stage, k_block);
      } else {
        LoadColumns(corner, stage, k_block);
      }
    }
  }

  // The first pass through the ring, whose stages nobody has to give back. Those loaded ahead
  // are armed here: with a stage a consumer knows that the grid's turn has come.
  GEMMD_DEVICE void FillRing(const TileCorner& corner, const RowLoads& rows, std::int32_t count,
                             std::int32_t ahead) const {
    bool has_rows = false;
    bool has_columns = false;
    if constexpr (Params::kIsOne) {
      has_rows = params.settled == SettledOperands::kRows;
      has_columns = params.settled == SettledOperands::kColumns;
    }
    GEMMD_NO_UNROLL
    for (std::int32_t k_block = 0; k_block < count; ++k_block) {
      const auto stage = static_cast<std::uint32_t>(k_block);
      ptx::MbarrierArriveExpect(block.Full(stage), rows.stage_bytes);
      if (k_block >= ahead || !has_rows) LoadRows(corner, rows, stage, k_block);
      if (k_block >= ahead || !has_columns) LoadColumns(corner, stage, k_block);
    }
  }
};

template <class Layout, class Params>
GEMMD_DEVICE void Produce(const Params& params, const Block<Layout>& block, TileWalk<Params> walk,
                          TileCorner corner) {
  const std::int32_t k_blocks = BlocksOfK(params);
  const Loader<Layout, Params> loader = {params, block};
  std::int32_t k_block = 0;  // the next to load
  if (walk.tile() < walk.end()) k_block = k_blocks < Layout::kStages ? k_blocks : Layout::kStages;
  std::int32_t ahead = 0;
  if constexpr (Params::kIsOne) {
    ahead = k_block < params.ahead ? k_block : params.ahead;
    loader.LoadAhead(corner, ahead);
  }
  if (params.settled != SettledOperands::kBoth) ptx::WaitForPrecedingGrid();
  RowLoads rows = RowLoadsOf<Layout>(params, corner);
  loader.FillRing(corner, rows, k_block, ahead);
  mma::RingPosition<Layout::kStages> at;
  at.parity = 1;  // every stage was empty to begin with
  at.Skip(static_cast<std::uint32_t>(k_block));
  while (walk.tile() < walk.end()) {
    if constexpr (Params::kIsBatch) {
      if (walk.next() < walk.end()) PrefetchMaps(params, block, walk.next());
    }
    for (; k_block < k_blocks; ++k_block) {
      ptx::MbarrierWait(block.Empty(at.stage), at.parity);
      ptx::MbarrierArriveExpect(block.Full(at.stage), rows.stage_bytes);
      loader.LoadRows(corner, rows, at.stage, k_block);
      loader.LoadColumns(corner, at.stage, k_block);
      at.Next();
    }
    k_block = 0;
    walk.Advance();
    if (walk.tile() < walk.end()) {
      corner = CornerOf(params, block, walk.tile());
      rows = RowLoadsOf<Layout>(params, corner);
    }
  }
}

// Asks the grid's first boxes into the L2 while the grid ahead still runs. A hint, so that it
// needs no order: the L2 is where that grid's writes arrive too. REQUIRES: K-major operands of one
// problem.
template <class Layout>
GEMMD_DEVICE void PrefetchOperands(const WgmmaGemmParams& params) {
  if (ptx::BlockIndexX() >= params.prefetchers) return;
  const WgmmaOperands& operands = params.operands[0];
  const auto boxes = [](std::int32_t lines, std::int32_t box) {
    return static_cast<std::uint32_t>((lines + box - 1) / box);
  };
  constexpr std::int32_t kRowLines = Layout::Rows::kBoxLines;
  constexpr std::int32_t kColumnLines = Layout::Columns::kBoxLines;
  const std::uint32_t row_boxes = boxes(params.m, kRowLines);
  const std::uint32_t all_boxes = row_boxes + boxes(params.n, kColumnLines);
  std::uint32_t box = ptx::BlockIndexX();
  for (std::uint32_t k_block = 0; k_block < params.prefetched; ++k_block) {
    const auto k = static_cast<std::int32_t>(k_block) * params.k_step;
    for (; box < all_boxes; box += params.prefetchers) {
      const bool is_row = box < row_boxes;
      const auto i = static_cast<std::int32_t>(is_row ? box : box - row_boxes);
      ptx::TensorPrefetch2D(is_row ? &operands.rows : &operands.columns, k,
                            i * (is_row ? kRowLines : kColumnLines));
    }
    box -= all_boxes;
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
