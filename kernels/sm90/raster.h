// The order in which tiles are walked, so that what is at work at one time shares operands in
// the L2. Pure; every order is a permutation of the tiles.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

namespace gemmd::sm90 {

// As Config::raster_order has it.
enum class RasterOrder : std::uint8_t {
  kRowGroups = 0,     // groups of rows, column by column
  kColumnGroups = 1,  // groups of columns, row by row
  kHilbert = 2,       // groups of rows, squares in them along Hilbert curves that join
};

// Which clusters of a grid lie side by side: number[c] is that of cluster c among its neighbours.
// A permutation (cluster_places.h).
inline constexpr std::uint32_t kMostPlaces = 144;
struct ClusterPlaces {
  std::uint8_t number[kMostPlaces];
};

struct Raster {
  std::uint32_t tiles_m;  // of clusters
  std::uint32_t tiles_n;
  std::uint32_t group;  // lines that are walked together; a power of two where kHilbert
  RasterOrder order;
};

struct RasterTile {
  std::uint32_t row;
  std::uint32_t column;
};

// Step `at` of the Hilbert curve that fills a square from its first row and column to its first row
// and last column. REQUIRES: `side` is a power of two, at < side * side.
GEMMD_DEVICE RasterTile HilbertTile(std::uint32_t at, std::uint32_t side) {
  RasterTile tile = {0, 0};
  for (std::uint32_t s = 1; s < side; s *= 2) {
    const std::uint32_t right = at / 2 & 1;
    const std::uint32_t below = (at ^ right) & 1;
    if (below == 0) {
      if (right == 1) tile = {s - 1 - tile.row, s - 1 - tile.column};
      tile = {tile.column, tile.row};
    }
    tile.column += s * right;
    tile.row += s * below;
    at /= 4;
  }
  return tile;
}

// REQUIRES: at < tiles_m * tiles_n.
GEMMD_DEVICE RasterTile TileAt(const Raster& raster, std::uint32_t at) {
  const bool by_columns = raster.order == RasterOrder::kColumnGroups;
  const std::uint32_t across = by_columns ? raster.tiles_n : raster.tiles_m;
  const std::uint32_t along = by_columns ? raster.tiles_m : raster.tiles_n;
  const std::uint32_t per_group = raster.group * along;
  const std::uint32_t first = at / per_group * raster.group;
  const std::uint32_t within = at % per_group;
  const std::uint32_t left = across - first;
  const std::uint32_t lines = left < raster.group ? left : raster.group;
  if (raster.order == RasterOrder::kHilbert && lines == raster.group) {
    // What is left of a group behind its last whole square is walked column by column.
    const std::uint32_t square = raster.group * raster.group;
    if (within / square < along / raster.group) {
      const RasterTile tile = HilbertTile(within % square, raster.group);
      return {first + tile.row, within / square * raster.group + tile.column};
    }
  }
  const RasterTile tile = {first + within % lines, within / lines};
  if (by_columns) return {tile.column, tile.row};
  return tile;
}

}  // namespace gemmd::sm90
