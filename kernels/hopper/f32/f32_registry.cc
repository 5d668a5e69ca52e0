#include "kernels/hopper/f32/f32_registry.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/math.h"
#include "kernels/hopper/common/tiled_kernel.h"
#include "kernels/hopper/f32/product_entries.h"
#include "kernels/hopper/f32/tilings.h"
#include "kernels/hopper/f32/workspace.h"
#include "kernels/hopper/small/small_batches.h"
#include "kernels/hopper/small/small_entries.h"

namespace gemmd {
namespace {

using hopper::f32::kTilingCount;
using hopper::f32::kTilings;
using hopper::f32::Tiling;

static_assert(kTilingCount == hopper::f32::kProductVariants);

constexpr double kCyclesPerUs = 1720;  // under load
// The cycles of a tile besides its products: its first stage's way, its last sums' and D's.
constexpr double kTileCycles = 3500;
constexpr double kSplitUs = 1.5;           // beside its bytes
constexpr double kEmulatedMacsPerUs = 12;  // six products for each

double PredictedUsOf(const Tiling& tiling, const Problem& problem, const DeviceTraits& device) {
  const double tiles = static_cast<double>(CeilOfRatio(problem.n, tiling.rows())) *
                       static_cast<double>(CeilOfRatio(problem.m, tiling.columns()));
  const auto k_blocks = static_cast<double>(CeilOfRatio(problem.k, 32));
  if (device.kind == DeviceKind::kEmulated) {
    return tiles * tiling.rows() * tiling.columns() * static_cast<double>(problem.k) /
           kEmulatedMacsPerUs;
  }
  const double waves = std::ceil(tiles / std::max(1, device.compute_units));
  const double cycles = waves * (k_blocks * tiling.k_block_cycles + kTileCycles);
  const auto parts = static_cast<double>(hopper::f32::PartBytes(tiling, problem));
  double bytes = parts + static_cast<double>(problem.b.size_bytes() + problem.d.size_bytes());
  if (problem.epilogue.beta != 0) bytes += static_cast<double>(problem.c.size_bytes());
  const double bytes_per_us = device.memory_gbps * 1e3;
  return kSplitUs + (parts + static_cast<double>(problem.a.size_bytes())) / bytes_per_us +
         std::max(cycles / kCyclesPerUs, bytes / bytes_per_us);
}

class F32Entry final : public hopper::TiledKernel<Tiling> {
 public:
  F32Entry()
      : TiledKernel({"sm90/f32_bf16x6", "sm_90a",
                     "f32 as three bf16 parts, six products on tensor cores, compensated sums",
                     Determinism::kBatchInvariant},
                    kTilings) {}

  std::string Rejection(const Problem& problem) const override {
    for (const DataType type : {problem.a.type, problem.b.type, problem.d.type}) {
      if (type != DataType::kF32) return "takes f32 operands and writes f32";
    }
    if (problem.accumulate != DataType::kF32) {
      return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
    }
    if (problem.b.leading_dimension % 4 != 0) {
      return absl::StrCat("takes a leading dimension of B that is a multiple of 4, not ",
                          problem.b.leading_dimension);
    }
    // Coordinates are 32 bits wide, with room for a tile past the end; those of parts count pieces
    // of 128 elements.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit);
    }
    if ((problem.m / 128 + 1) * (problem.k / 64 + 1) > kLimit / 64 ||
        (problem.m / 8 + 1) * (problem.n / 64 + 1) > kLimit) {
      return "takes up to 2^38 elements of A, and 2^40 of D";
    }
    return "";
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    const Tiling* const tiling = TilingOf(config);
    return tiling == nullptr ? 0 : hopper::f32::PartBytes(*tiling, problem);
  }

  std::string NumericsId(const Problem&) const override { return "bf16x6-k32:f32:compensated"; }

  double PredictedBatchUs(const Problem& problem, const Config& config, std::int64_t problems,
                          const DeviceTraits& device) const override {
    if (!hopper::small::TakesBatch(problem, problems)) {
      return Kernel::PredictedBatchUs(problem, config, problems, device);
    }
    return hopper::small::PredictedUs(problem, problems, device);
  }

  absl::Status LaunchBatch(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch,
                           const LaunchTarget& target) const override {
    if (!hopper::small::TakesBatch(problem, static_cast<std::int64_t>(batch.size()))) {
      return Kernel::LaunchBatch(problem, config, batch, target);
    }
    return hopper::small::SmallBatchFor(target, hopper::small::kF32Numbers)(problem, batch, target);
  }

 private:
  double PredictedTilingUs(const Tiling& tiling, const Problem& problem,
                           const DeviceTraits& device) const override {
    return PredictedUsOf(tiling, problem, device);
  }

  absl::Status LaunchTiling(int tiling, const Problem& problem, const Config& config,
                            const Arguments& arguments, const LaunchTarget& target) const override {
    return hopper::f32::ProductFor(target, tiling)(problem, config, arguments, target);
  }

  Config ConfigOf(const Tiling& tiling) const override {
    Config config;
    config.tile_m = tiling.columns();
    config.tile_n = tiling.rows();
    config.tile_k = 64;
    config.stages = tiling.max_stages;
    config.warps = 4 * (tiling.row_groups * tiling.column_groups + 1);
    config.raster_group = 16;
    return config;
  }
};

}  // namespace

void AppendHopperF32(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<F32Entry>());
}

}  // namespace gemmd
