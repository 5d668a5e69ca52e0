// The terms of a block's producer and consumers: their warps, the ring of stages, named barriers,
// and the order of tiles.
#pragma once

#include <cstdint>

#include "kernels/hopper/half/wgmma_gemm_params.h"
#include "kernels/hopper/half/wgmma_layout.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Named barriers. 0 is that of the whole block.
inline constexpr std::uint32_t kGroupBarrier = 1;    // and 2: of a group by itself
inline constexpr std::uint32_t kStaggerBarrier = 3;  // the second group's first product
inline constexpr std::uint32_t kTurnBarrier = 4;     // and 5: the turns of ping-pong
inline constexpr std::uint32_t kClearedBarrier = 6;  // ClearUnloadedRows()

template <class Layout>
struct Block : mma::Ring<Layout> {
  std::uint32_t rank = Layout::kCluster == 1 ? 0 : ptx::RankInCluster();
  std::uint32_t rank_m = rank % Layout::kClusterM;
  std::uint32_t rank_n = rank / Layout::kClusterM;
  std::uint32_t cluster = ptx::BlockIndexX() / Layout::kCluster;
  std::uint32_t clusters = ptx::GridSizeX() / Layout::kCluster;
};

// The corner of a block's tile, the number of its problem in a batch, or of its product in groups,
// and the row at which the tile's problem or group ends.
struct TileCorner {
  std::int32_t m;
  std::int32_t n;
  std::int32_t problem;
  std::int32_t m_end;
};

template <class Params>
GEMMD_DEVICE std::uint32_t TilesOf(const Params& params) {
  const std::uint32_t tiles = params.raster.tiles_m * params.raster.tiles_n;
  if constexpr (Params::kIsBatch) return tiles * params.problems;
  return tiles;
}

// The maps and pointers of a tile's problem, and the problem's coordinate in maps of the whole
// batch.
template <class Params>
GEMMD_DEVICE const WgmmaOperands& OperandsOf(const Params& params, const TileCorner& corner) {
  if constexpr (Params::kIsBatch) return params.operands[params.is_strided ? 0 : corner.problem];
  static_cast<void>(corner);
  return params.operands[0];
}
template <class Params>
GEMMD_DEVICE std::int32_t DepthOf(const Params& params, const TileCorner& corner) {
  return Params::kIsGroups || params.is_strided ? corner.problem : 0;
}

// The tiles of a cluster: one of each wave, and every tile is some cluster's.
template <class Params>
class TileWalk {
 public:
  template <class Layout>
  GEMMD_DEVICE TileWalk(const Params& params, const Block<Layout>& block)
      : tiles_(TilesOf(params)),
        clusters_(block.clusters),
        cluster_(block.cluster),
        place_(params.is_placed ? params.places.number[block.cluster] : block.cluster) {}

  // At or past end() there is no tile.
  GEMMD_DEVICE std::uint32_t tile() const { return At(wave_); }
  GEMMD_DEVICE std::uint32_t next() const { return At(wave_ + clusters_); }
  GEMMD_DEVICE std::uint32_t end() const { return tiles_; }
  GEMMD_DEVICE void Advance() { wave_ += clusters_; }

 private:
  // Places hold while the grid works in step, which it does not for the tiles of a last, partial
  // wave.
  GEMMD_DEVICE std::uint32_t At(std::uint32_t wave) const {
    return wave + (wave + clusters_ <= tiles_ ? place_ : cluster_);
  }

  std::uint32_t tiles_;
  std::uint32_t clusters_;
  std::uint32_t cluster_;
  std::uint32_t place_;
  std::uint32_t wave_ = 0;  // the wave's first tile
};

// The group of a row of tiles: the last that begins there or before.
GEMMD_DEVICE const GroupRows& GroupAt(const GroupTable& groups, std::uint32_t tile_row) {
  std::uint32_t first = 0;
  std::uint32_t end = groups.count;
  while (end - first > 1) {
    const std::uint32_t middle = (first + end) / 2;
    if (groups.rows[middle].first_tile <= tile_row) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return groups.rows[first];
}

// The corner of a block's part of a cluster's tile of groups.
template <class Layout, class Params>
GEMMD_DEVICE TileCorner CornerInGroups(const Params& params, const Block<Layout>& block,
                                       std::uint32_t tile) {
  constexpr std::int32_t kRows = Layout::kClusterM * Layout::kTileM;
  const std::uint32_t columns = params.raster.tiles_n;
  const GroupRows& group = GroupAt(params, tile / columns);
  tile -= group.first_tile * columns;
  const std::uint32_t band = tile / (params.band * columns) * params.band;  // its first row
  tile -= band * columns;
  const auto tiles = static_cast<std::uint32_t>((group.end - group.begin + kRows - 1) / kRows);
  const std::uint32_t rows = tiles - band < params.band ? tiles - band : params.band;
  const std::uint32_t column = tile / rows;
  const std::uint32_t row = (band + tile - column * rows) * Layout::kClusterM + block.rank_m;
  return {group.begin + static_cast<std::int32_t>(row * Layout::kTileM),
          static_cast<std::int32_t>((column * Layout::kClusterN + block.rank_n) * Layout::kTileN),
          group.product, group.end};
}

// The corner of a block's part of a cluster's tile. The problems of a batch follow each other.
template <class Layout, class Params>
GEMMD_DEVICE TileCorner CornerOf(const Params& params, const Block<Layout>& block,
                                 std::uint32_t tile) {
  if constexpr (Params::kIsGroups) return CornerInGroups(params, block, tile);
  std::uint32_t problem = 0;
  if constexpr (Params::kIsBatch) {
    const std::uint32_t tiles = params.raster.tiles_m * params.raster.tiles_n;
    problem = tile / tiles;
    tile -= problem * tiles;
  }
  const RasterTile at = TileAt(params.raster, tile);
  return {
      static_cast<std::int32_t>((at.row * Layout::kClusterM + block.rank_m) * Layout::kTileM),
      static_cast<std::int32_t>((at.column * Layout::kClusterN + block.rank_n) * Layout::kTileN),
      static_cast<std::int32_t>(problem), params.m};
}

template <class Params>
GEMMD_DEVICE std::int32_t BlocksOfK(const Params& params) {
  return (params.k + kTileK - 1) / kTileK;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
