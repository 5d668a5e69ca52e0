#include "kernels/hopper/f64/f64_registry.h"

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
#include "kernels/hopper/f64/product_entries.h"
#include "kernels/hopper/f64/tilings.h"
#include "kernels/hopper/small/small_batches.h"
#include "kernels/hopper/small/small_entries.h"

namespace gemmd {
namespace {

using hopper::f64::kTilingCount;
using hopper::f64::kTilings;
using hopper::f64::Tiling;

static_assert(hopper::f64::kProductVariants == kTilingCount);

constexpr double kCyclesPerUs = 1900;  // under load
// The cycles of a tile besides its products: its first stage's way, and D's.
constexpr double kTileCycles = 3000;
constexpr double kLaunchUs = 2.5;
constexpr double kMemoryShare = 0.92;  // of what the memory could move
constexpr double kNotHidden = 0.05;    // of the shorter of loading and multiplying
constexpr double kEmulatedMacsPerUs = 100;

double PredictedUsOf(const Tiling& tiling, const Problem& problem, const DeviceTraits& device) {
  const double tiles = static_cast<double>(CeilOfRatio(problem.n, tiling.rows())) *
                       static_cast<double>(CeilOfRatio(problem.m, tiling.columns()));
  const auto k_blocks = static_cast<double>(CeilOfRatio(problem.k, 16));
  if (device.kind == DeviceKind::kEmulated) {
    return tiles * tiling.rows() * tiling.columns() * static_cast<double>(problem.k) /
           kEmulatedMacsPerUs;
  }
  const double turns = std::ceil(tiles / std::max(1, device.compute_units));
  const double cycles = turns * (k_blocks * tiling.k_block_cycles + kTileCycles);
  double bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes());
  if (problem.epilogue.beta != 0) bytes += static_cast<double>(problem.c.size_bytes());
  const double at_work = cycles / kCyclesPerUs;
  const double on_the_way = bytes / (device.memory_gbps * 1e3 * kMemoryShare);
  return kLaunchUs + std::max(at_work, on_the_way) + kNotHidden * std::min(at_work, on_the_way);
}

class F64Entry final : public hopper::TiledKernel<Tiling> {
 public:
  F64Entry()
      : TiledKernel(
            {"sm90/f64", "sm_90a", "f64 on tensor cores, each sum one chain of fused multiply-adds",
             Determinism::kBatchInvariant},
            kTilings) {}

  std::string Rejection(const Problem& problem) const override {
    for (const DataType type : {problem.a.type, problem.b.type, problem.d.type}) {
      if (type != DataType::kF64) return "takes f64 operands and writes f64";
    }
    if (problem.accumulate != DataType::kF64) {
      return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
    }
    // TMA counts words of 32 bits, by coordinates of 32 bits with room for a tile past the end.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() / 2 - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit);
    }
    constexpr std::int64_t kTileLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if ((problem.m / 8 + 1) * (problem.n / 32 + 1) > kTileLimit) {
      return "takes up to 2^39 elements of D";
    }
    return "";
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }

  std::string NumericsId(const Problem&) const override { return "f64:fma-chain"; }

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
    return hopper::small::SmallBatchFor(target, hopper::small::kF64Numbers)(problem, batch, target);
  }

 private:
  double PredictedTilingUs(const Tiling& tiling, const Problem& problem,
                           const DeviceTraits& device) const override {
    return PredictedUsOf(tiling, problem, device);
  }

  absl::Status LaunchTiling(int tiling, const Problem& problem, const Config& config,
                            const Arguments& arguments, const LaunchTarget& target) const override {
    return hopper::f64::ProductFor(target, tiling)(problem, config, arguments, target);
  }

  Config ConfigOf(const Tiling& tiling) const override {
    Config config;
    config.tile_m = tiling.columns();
    config.tile_n = tiling.rows();
    config.tile_k = tiling.stage_k;
    config.stages = tiling.max_stages;
    config.warps = tiling.warps();
    config.raster_group = 16;
    return config;
  }
};

}  // namespace

void AppendHopperF64(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<F64Entry>());
}

}  // namespace gemmd
