#include "kernels/hopper/half/predicted_time.h"

#include <algorithm>
#include <cmath>

#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/common/raster.h"
#include "kernels/hopper/half/wgmma_layout.h"

namespace gemmd::hopper::half {
namespace {

// Under load; 1.98 GHz is the clock at idle.
constexpr double kCyclesPerUs = 1600;
// Where memory decides, a tiling's time is a little less than what every kernel needs for the
// bytes. So all tilings lead kernels on mma.sync, and small and large M are served by kernels of
// one numerics id. A share of the time to compute makes the quickest tiling lead among them.
constexpr double kOfMemoryTime = 0.99;
constexpr double kOfComputeTime = 0.001;

double CeilOfRatio(double x, double y) { return std::ceil(x / y); }

struct TileGrid {
  std::int64_t rows;  // of cluster tiles
  std::int64_t columns;
};

TileGrid GridOf(const Tiling& tiling, const Problem& problem) {
  const Frame frame = MakeFrame(problem, {});
  return {FrameTiles(frame.rows.lines, tiling.tile_m * tiling.cluster_m),
          FrameTiles(frame.columns.lines, tiling.tile_n * tiling.cluster_n)};
}

// Places are known for clusters of two blocks alone, and matter where there are waves of them: an
// H200 takes 66 at once.
bool HasPlaces(const Tiling& tiling, const TileGrid& grid) {
  constexpr std::int64_t kTwoWaves = 132;
  return tiling.cluster_m * tiling.cluster_n == 2 && grid.rows > 1 && grid.columns > 1 &&
         grid.rows * grid.columns >= kTwoWaves;
}

// The bytes that a product reads and writes.
double BytesOf(const Problem& problem) {
  const auto bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes());
  return problem.epilogue.beta == 0 ? bytes : bytes + static_cast<double>(problem.c.size_bytes());
}

// The time of so many clusters' tiles that all together read and write `bytes`.
double TimeOf(const Tiling& tiling, std::int64_t k, double tiles, double bytes,
              const DeviceTraits& device) {
  const double clusters = std::max(1, device.compute_units / (tiling.cluster_m * tiling.cluster_n));
  const double waves = CeilOfRatio(tiles, clusters);
  const double k_blocks = CeilOfRatio(static_cast<double>(k), kTileK);
  const double compute_us =
      waves * (k_blocks * tiling.k_block_cycles + tiling.tile_cycles) / kCyclesPerUs;
  const double memory_us = bytes / (device.memory_gbps * 1e3);
  return std::max(compute_us, kOfMemoryTime * memory_us) + kOfComputeTime * compute_us;
}

}  // namespace

double PredictedTilingUs(const Tiling& tiling, const Problem& problem, std::int64_t problems,
                         const DeviceTraits& device) {
  const auto count = static_cast<double>(problems);
  const TileGrid grid = GridOf(tiling, problem);
  const double tiles = count * static_cast<double>(grid.rows) * static_cast<double>(grid.columns);
  return TimeOf(tiling, problem.k, tiles, count * BytesOf(problem), device);
}

double PredictedGroupsUs(const Tiling& tiling, const Problem& problem, const RowGroups& groups,
                         const DeviceTraits& device) {
  double products = 0;
  std::int64_t begin = 0;
  for (const std::int64_t end : groups.row_ends) {
    products += end > begin ? 1 : 0;
    begin = end;
  }
  const double more = std::max(0.0, products - 1) * static_cast<double>(problem.b.size_bytes());
  return TimeOf(tiling, problem.k, GroupTiles(tiling, problem, groups), BytesOf(problem) + more,
                device);
}

double GroupTiles(const Tiling& tiling, const Problem& problem, const RowGroups& groups) {
  double rows_of_tiles = 0;
  std::int64_t begin = 0;
  for (const std::int64_t end : groups.row_ends) {
    rows_of_tiles += FrameTiles(end - begin, tiling.tile_m * tiling.cluster_m);
    begin = end;
  }
  return rows_of_tiles * static_cast<double>(GridOf(tiling, problem).columns);
}

void SetRaster(const Tiling& tiling, const Problem& problem, Config* config) {
  // Measured (docs/lab/hopper-tiles.md). A group has 8 rows of cluster tiles, or 4 where a cluster
  // tile has 512 rows. Where there are waves of pairs, launches go by place and walk groups of
  // columns, so that neighbours share rows; groups are wider where the tile is higher. With a short
  // K, D's lines decide.
  constexpr std::int64_t kShortK = 2048;
  const TileGrid grid = GridOf(tiling, problem);
  const bool is_high = tiling.tile_m * tiling.cluster_m >= 512;
  config->raster_group = is_high ? 4 : 8;
  if (!HasPlaces(tiling, grid)) return;
  if (problem.k <= kShortK) {
    config->raster_group = 16;
    return;
  }
  config->raster_order = static_cast<int>(RasterOrder::kColumnGroups);
  config->raster_group = is_high ? 16 : 8;
  config->by_place = 1;
}

std::vector<Config> Rasters(const Tiling& tiling, const Problem& problem, const Config& planned) {
  struct Choice {
    RasterOrder order;
    int group;
    bool by_place;
  };
  const TileGrid grid = GridOf(tiling, problem);
  const std::int64_t rows = grid.rows;
  const std::int64_t columns = grid.columns;
  const bool has_places = HasPlaces(tiling, grid);
  std::vector<Config> configs = {planned};
  for (const Choice& choice : {Choice{RasterOrder::kRowGroups, 4, false},
                               {RasterOrder::kRowGroups, 8, false},
                               {RasterOrder::kRowGroups, 16, false},
                               {RasterOrder::kHilbert, 8, false},
                               {RasterOrder::kHilbert, 16, false},
                               {RasterOrder::kColumnGroups, 8, false},
                               {RasterOrder::kColumnGroups, 8, true},
                               {RasterOrder::kColumnGroups, 16, true},
                               {RasterOrder::kHilbert, 16, true}}) {
    const std::int64_t across = choice.order == RasterOrder::kColumnGroups ? columns : rows;
    if (choice.by_place && !has_places) continue;
    // One row or column of tiles has one order, a group of all lines is like a larger one, and
    // a curve needs whole squares.
    if (rows == 1 || columns == 1) continue;
    const bool is_curve = choice.order == RasterOrder::kHilbert;
    if (is_curve && (rows < choice.group || columns < choice.group)) continue;
    if (!is_curve && choice.group > 4 && across <= choice.group / 2) continue;
    Config config = planned;
    config.raster_group = choice.group;
    config.raster_order = static_cast<int>(choice.order);
    config.by_place = choice.by_place ? 1 : 0;
    if (config != planned) configs.push_back(config);
  }
  return configs;
}

}  // namespace gemmd::hopper::half
