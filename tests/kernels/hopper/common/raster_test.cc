// Orders of tiles are permutations, whatever the grid, and neighbours where they say so.
#include "kernels/hopper/common/raster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "kernels/hopper/common/cluster_places.h"

namespace gemmd::hopper {
namespace {

constexpr RasterOrder kOrders[] = {RasterOrder::kRowGroups, RasterOrder::kColumnGroups,
                                   RasterOrder::kHilbert};

TEST(Raster, EveryOrderIsAPermutation) {
  for (const RasterOrder order : kOrders) {
    for (const std::uint32_t group : {1, 4, 8, 16}) {
      for (const std::uint32_t m : {1, 2, 7, 8, 16, 17, 33}) {
        for (const std::uint32_t n : {1, 3, 8, 16, 43, 128}) {
          const Raster raster = MakeRaster(m, n, group, order);
          std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
          for (std::uint32_t at = 0; at < m * n; ++at) {
            const RasterTile tile = TileAt(raster, at);
            ASSERT_LT(tile.row, m);
            ASSERT_LT(tile.column, n);
            seen.insert({tile.row, tile.column});
          }
          ASSERT_EQ(seen.size(), m * n)
              << static_cast<int>(order) << " " << group << " " << m << "x" << n;
        }
      }
    }
  }
}

TEST(Raster, DivisorsDivide) {
  constexpr std::uint32_t kMost = 0x7fffffff;
  for (const std::uint32_t value : {1u, 2u, 3u, 7u, 8u, 33u, 132u, 641u, 65535u, 65537u,
                                    0x40000000u, 0x40000001u, 0x7ffffc00u, kMost}) {
    const Divisor divisor = MakeDivisor(value);
    for (std::uint64_t multiple = 0; multiple <= kMost;
         multiple += value * (kMost / value / 97 + 1)) {
      for (const std::int64_t by : {-1, 0, 1}) {
        const std::int64_t n = static_cast<std::int64_t>(multiple) + by;
        if (n < 0 || n > kMost) continue;
        ASSERT_EQ(divisor.Quotient(static_cast<std::uint32_t>(n)), n / value) << n << " " << value;
      }
    }
    ASSERT_EQ(divisor.Quotient(kMost), kMost / value) << value;
  }
}

TEST(Raster, HilbertStepsToNeighbours) {
  for (const std::uint32_t side : {2, 4, 8, 16}) {
    const Raster raster = MakeRaster(side, 3 * side, side, RasterOrder::kHilbert);
    RasterTile last = TileAt(raster, 0);
    EXPECT_EQ(last.row + last.column, 0U);
    for (std::uint32_t at = 1; at < 3 * side * side; ++at) {
      const RasterTile tile = TileAt(raster, at);
      const int distance = std::abs(static_cast<int>(tile.row) - static_cast<int>(last.row)) +
                           std::abs(static_cast<int>(tile.column) - static_cast<int>(last.column));
      ASSERT_EQ(distance, 1) << "side " << side << ", step " << at;
      last = tile;
    }
    EXPECT_EQ(last.column, 3 * side - 1);
  }
}

TEST(Raster, GroupsGoAlongTheirLines) {
  const auto at = [](RasterOrder order, std::uint32_t i) {
    const RasterTile tile = TileAt(MakeRaster(10, 6, 4, order), i);
    return std::pair(tile.row, tile.column);
  };
  EXPECT_EQ(at(RasterOrder::kRowGroups, 5), std::pair(1u, 1u));
  EXPECT_EQ(at(RasterOrder::kColumnGroups, 5), std::pair(1u, 1u));
  EXPECT_EQ(at(RasterOrder::kRowGroups, 3), std::pair(3u, 0u));
  EXPECT_EQ(at(RasterOrder::kColumnGroups, 3), std::pair(0u, 3u));
  EXPECT_EQ(at(RasterOrder::kColumnGroups, 40), std::pair(0u, 4u));
  EXPECT_EQ(at(RasterOrder::kRowGroups, 49), std::pair(9u, 0u));
}

// Clusters are numbered round robin over two groups of 12 multiprocessors and a lone pair.
TEST(ClusterPlaces, PutNeighboursSideBySide) {
  const std::vector<std::uint32_t> first = {0, 12, 24, 2, 14, 4, 16, 6, 18, 8, 20, 10, 22};
  std::vector<std::vector<std::uint32_t>> joined;
  for (const std::uint32_t at : first) joined.push_back({at, at + 1});
  for (const std::uint32_t at : {0, 12}) {
    joined.push_back({at, at + 1u, at + 2u, at + 3u, at + 4u, at + 5u});
    joined.push_back({at + 4u, at + 5u, at + 6u, at + 7u, at + 8u, at + 9u, at + 10u, at + 11u});
  }
  const ClusterPlaces places = PlacesByNeighbours(joined, first);
  std::vector<std::uint32_t> by_place(first.size(), 99);
  for (std::size_t c = 0; c < first.size(); ++c) by_place[places.number[c]] = first[c];
  EXPECT_EQ(by_place[12], 24U);  // the lone one last
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(by_place[i] / 12, by_place[0] / 12);
  for (std::size_t i = 6; i < 12; ++i) EXPECT_EQ(by_place[i] / 12, by_place[6] / 12);
}

TEST(ClusterPlaces, ArePermutationsWhateverWasFound) {
  for (const std::vector<std::vector<std::uint32_t>>& joined :
       {std::vector<std::vector<std::uint32_t>>{}, {{3, 3}}, {{0, 140}, {140, 2}, {7}}}) {
    const std::vector<std::uint32_t> first(66, 5);
    const ClusterPlaces places = PlacesByNeighbours(joined, first);
    std::set<int> seen;
    for (std::size_t c = 0; c < first.size(); ++c) seen.insert(places.number[c]);
    EXPECT_EQ(seen.size(), first.size());
    EXPECT_EQ(*seen.rbegin(), 65);
  }
}

}  // namespace
}  // namespace gemmd::hopper
