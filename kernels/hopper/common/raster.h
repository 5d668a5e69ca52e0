// The order in which tiles are walked, so that what is at work at one time shares operands in
// the L2. Pure; every order is a permutation of the tiles.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

namespace gemmd::hopper {

// The values of Config::raster_order.
enum class RasterOrder : std::uint8_t {
  kRowGroups = 0,     // groups of rows, column by column
  kColumnGroups = 1,  // groups of columns, row by row
  kHilbert = 2,       // groups of rows, squares in them along Hilbert curves that join
};

// The order in which clusters of a grid lie side by side: number[c] is that of cluster c among its
// neighbours. A permutation (cluster_places.h).
inline constexpr std::uint32_t kMostPlaces = 144;
struct ClusterPlaces {
  std::uint8_t number[kMostPlaces];
};

// n / value for n below 2^31, by a multiplication: a kernel's first tile waits for every cycle.
struct Divisor {
  std::uint32_t value;
  std::uint32_t multiplier;  // 2^shift / value, rounded up
  std::uint32_t shift;

  GEMMD_DEVICE std::uint32_t Quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) * multiplier >> shift);
  }
};

// REQUIRES: 1 <= value < 2^31.
inline Divisor MakeDivisor(std::uint32_t value) {
  std::uint32_t bits = 0;
  while (std::uint64_t{1} << bits < value) ++bits;
  const std::uint32_t shift = 31 + bits;
  return {value, static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + value - 1) / value),
          shift};
}

struct Raster {
  std::uint32_t tiles_m;  // of clusters
  std::uint32_t tiles_n;
  std::uint32_t group;  // lines that are walked together; a power of two where kHilbert
  RasterOrder order;
  // These follow from those above (MakeRaster()).
  Divisor tiles_of_group;
  Divisor lines;       // of a group,
  Divisor last_lines;  // and of the last one where it has fewer
  Divisor square;      // tiles of one of kHilbert
};

// REQUIRES: neither is 0.
inline Raster MakeRaster(std::uint32_t tiles_m, std::uint32_t tiles_n, std::uint32_t group,
                         RasterOrder order) {
  const bool by_columns = order == RasterOrder::kColumnGroups;
  const std::uint32_t across = by_columns ? tiles_n : tiles_m;
  const std::uint32_t along = by_columns ? tiles_m : tiles_n;
  // Without a whole square there is no curve, and a group of all lines is like any larger one.
  if (group > across || group > along) {
    if (order == RasterOrder::kHilbert) order = RasterOrder::kRowGroups;
    if (group > across) group = across;
  }
  return {tiles_m,
          tiles_n,
          group,
          order,
          MakeDivisor(group * along),
          MakeDivisor(group),
          MakeDivisor(across % group == 0 ? group : across % group),
          MakeDivisor(order == RasterOrder::kHilbert ? group * group : 1)};
}

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
  const std::uint32_t nth = raster.tiles_of_group.Quotient(at);
  const std::uint32_t first = nth * raster.group;
  const std::uint32_t within = at - nth * raster.tiles_of_group.value;
  const bool is_whole = across - first >= raster.group;
  if (raster.order == RasterOrder::kHilbert && is_whole) {
    // The part of a group behind its last whole square is walked column by column.
    const std::uint32_t nth_square = raster.square.Quotient(within);
    if (nth_square < raster.lines.Quotient(raster.tiles_n)) {
      const RasterTile tile = HilbertTile(within - nth_square * raster.square.value, raster.group);
      return {first + tile.row, nth_square * raster.group + tile.column};
    }
  }
  const Divisor& lines = is_whole ? raster.lines : raster.last_lines;
  const std::uint32_t line = lines.Quotient(within);
  const RasterTile tile = {first + within - line * lines.value, line};
  if (by_columns) return {tile.column, tile.row};
  return tile;
}

}  // namespace gemmd::hopper
