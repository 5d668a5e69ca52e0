#include "kernels/sm90/predicted_time.h"

#include <algorithm>
#include <cmath>

#include "kernels/sm90/frame.h"
#include "kernels/sm90/wgmma_layout.h"

namespace gemmd::sm90 {
namespace {

// Under load; 1.98 GHz is the clock at idle.
constexpr double kCyclesPerUs = 1600;
// Where memory decides, a little less than what every kernel needs, and the more the less there
// is to compute: among the tilings the quickest one leads, and all lead kernels on mma.sync, so
// that small and large M are served by kernels of one numerics id.
constexpr double kOfMemoryTime = 0.99;
constexpr double kOfComputeTime = 0.001;

double CeilOfRatio(double x, double y) { return std::ceil(x / y); }

}  // namespace

double PredictedTilingUs(const Tiling& tiling, const Problem& problem, std::int64_t problems,
                         const DeviceTraits& device) {
  const auto count = static_cast<double>(problems);
  const Frame frame = MakeFrame(problem, {}, tiling.stores_transposed);
  const double tiles =
      count * CeilOfRatio(static_cast<double>(frame.rows.lines), tiling.tile_m * tiling.cluster_m) *
      CeilOfRatio(static_cast<double>(frame.columns.lines), tiling.tile_n * tiling.cluster_n);
  const double clusters = std::max(1, device.compute_units / (tiling.cluster_m * tiling.cluster_n));
  const double waves = CeilOfRatio(tiles, clusters);
  const double k_blocks = CeilOfRatio(static_cast<double>(problem.k), kTileK);
  const double compute_us =
      waves * (k_blocks * tiling.k_block_cycles + tiling.tile_cycles) / kCyclesPerUs;
  double bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes());
  if (problem.epilogue.beta != 0) bytes += static_cast<double>(problem.c.size_bytes());
  const double memory_us = count * bytes / (device.memory_gbps * 1e3);
  return std::max(compute_us, kOfMemoryTime * memory_us) + kOfComputeTime * compute_us;
}

int RasterGroup(const Tiling& tiling, const Problem& problem) {
  // A group of 8 cluster rows measured best; 4 where a cluster tile has 512 rows, so that as
  // many rows are walked together.
  static_cast<void>(problem);
  return tiling.tile_m * tiling.cluster_m >= 512 ? 4 : 8;
}

}  // namespace gemmd::sm90
