// The generalised Hilbert curve visits every tile of any grid once, each next to the one before.
#include "kernels/mma/tile_order.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "kernels/hopper/common/raster.h"

namespace gemmd::mma {
namespace {

int DistanceOf(TilePlace a, TilePlace b) {
  return std::abs(a.row - b.row) + std::abs(a.column - b.column);
}

// "" or the first fault of the curve on a grid.
std::string FaultOf(int rows, int columns) {
  std::vector<bool> seen(static_cast<std::size_t>(rows * columns));
  TilePlace before = {0, 0};
  for (int at = 0; at < rows * columns; ++at) {
    const TilePlace tile = GeneralHilbertTile(at, rows, columns);
    const std::string where =
        std::to_string(rows) + "x" + std::to_string(columns) + " at " + std::to_string(at) + ": ";
    if (tile.row < 0 || tile.row >= rows || tile.column < 0 || tile.column >= columns) {
      return where + "outside";
    }
    const auto number = static_cast<std::size_t>(tile.row * columns + tile.column);
    if (seen[number]) return where + "twice";
    seen[number] = true;
    if (at == 0 && (tile.row != 0 || tile.column != 0)) return where + "not the first tile";
    if (at > 0 && DistanceOf(before, tile) != 1) return where + "no neighbour";
    before = tile;
  }
  return "";
}

TEST(TileOrder, VisitsEveryTileOnceFromNeighbourToNeighbour) {
  for (int rows = 1; rows <= 48; ++rows) {
    for (int columns = 1; columns <= 48; ++columns) ASSERT_EQ(FaultOf(rows, columns), "");
  }
}

TEST(TileOrder, LongAndLargeGridsToo) {
  for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{{1, 32768},
                                                                      {32768, 1},
                                                                      {2, 4097},
                                                                      {4097, 2},
                                                                      {3, 1000},
                                                                      {999, 4},
                                                                      {1021, 1024},
                                                                      {1024, 1021},
                                                                      {641, 643}}) {
    EXPECT_EQ(FaultOf(rows, columns), "");
  }
}

TEST(TileOrder, IsTheHilbertCurveOnSquaresOfPowersOfTwo) {
  for (int side = 1; side <= 128; side *= 2) {
    for (int at = 0; at < side * side; ++at) {
      const TilePlace tile = GeneralHilbertTile(at, side, side);
      const hopper::RasterTile expected =
          hopper::HilbertTile(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(side));
      ASSERT_EQ(tile.row, static_cast<int>(expected.row)) << side << " " << at;
      ASSERT_EQ(tile.column, static_cast<int>(expected.column)) << side << " " << at;
    }
  }
}

TEST(TileOrder, IsWhatItWasOnAGridOfThreeByFive) {
  const std::vector<TilePlace> golden = {{0, 0}, {1, 0}, {2, 0}, {2, 1}, {1, 1},
                                         {0, 1}, {0, 2}, {1, 2}, {2, 2}, {2, 3},
                                         {2, 4}, {1, 4}, {1, 3}, {0, 3}, {0, 4}};
  for (std::size_t at = 0; at < golden.size(); ++at) {
    const TilePlace tile = GeneralHilbertTile(static_cast<std::int32_t>(at), 3, 5);
    EXPECT_EQ(DistanceOf(tile, golden[at]), 0) << at;
  }
}

// Kernels may work tiles out when they are compiled.
static_assert(GeneralHilbertTile(0, 7, 9).row == 0);
static_assert(GeneralHilbertTile(62, 7, 9).column == 8);

}  // namespace
}  // namespace gemmd::mma
