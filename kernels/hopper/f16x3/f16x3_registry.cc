#include "kernels/hopper/f16x3/f16x3_registry.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/hopper/common/tiled_kernel.h"
#include "kernels/hopper/f16x3/product_entries.h"
#include "kernels/hopper/f16x3/tilings.h"
#include "kernels/hopper/f16x3/workspace.h"

namespace gemmd {
namespace {

using hopper::f16x3::kTilingCount;
using hopper::f16x3::kTilings;
using hopper::f16x3::Tiling;

static_assert(kTilingCount == hopper::f16x3::kProductVariants);

constexpr double kCyclesPerUs = 1720;  // under load
// The cycles of a tile besides its products: its first stage's way, its last sums' and D's.
constexpr double kTileCycles = 3500;
constexpr double kSplitUs = 3;             // beside its bytes
constexpr double kEmulatedMacsPerUs = 24;  // three products for each

double PredictedUsOf(const Tiling& tiling, const Problem& problem, const DeviceTraits& device) {
  const hopper::f16x3::Workspace workspace = hopper::f16x3::WorkspaceOf(tiling, problem);
  const double area = static_cast<double>(workspace.rows) * static_cast<double>(workspace.columns);
  if (device.kind == DeviceKind::kEmulated) {
    return area * static_cast<double>(problem.k) / kEmulatedMacsPerUs;
  }
  const double tiles = area / (tiling.rows() * tiling.columns());
  const double waves = std::ceil(tiles / std::max(1, device.compute_units));
  const double stages = std::ceil(static_cast<double>(problem.k) / 64);
  const double cycles = waves * (stages * tiling.stage_cycles + kTileCycles);
  const auto parts = static_cast<double>(workspace.bytes());
  double bytes = parts + static_cast<double>(problem.d.size_bytes());
  if (problem.epilogue.beta != 0) bytes += static_cast<double>(problem.c.size_bytes());
  const double split_bytes =
      parts + static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes());
  const double bytes_per_us = device.memory_gbps * 1e3;
  return kSplitUs + split_bytes / bytes_per_us +
         std::max(cycles / kCyclesPerUs, bytes / bytes_per_us);
}

Kernel::Traits TraitsOfEntry() {
  Kernel::Traits traits;
  traits.name = "sm90/f32_f16x3";
  traits.architecture = "sm_90a";
  traits.description =
      "f32 as two f16 parts, three products, by name only: errs by up to 85 2^-24 |A||B| + 2^-38 K "
      "max|a| max|b|, of a row of A and a column of B";
  traits.determinism = Determinism::kBatchInvariant;
  traits.only_by_name = true;
  traits.is_reduced = true;
  return traits;
}

class F16x3Entry final : public hopper::TiledKernel<Tiling> {
 public:
  F16x3Entry() : TiledKernel(TraitsOfEntry(), kTilings) {}

  std::string Rejection(const Problem& problem) const override {
    for (const DataType type : {problem.a.type, problem.b.type, problem.d.type}) {
      if (type != DataType::kF32) return "takes f32 operands and writes f32";
    }
    if (problem.accumulate != DataType::kF32) {
      return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
    }
    // Coordinates are 32 bits wide, with room for a tile past the end; those of parts count 256
    // elements.
    constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
    if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
      return absl::StrCat("takes dimensions up to ", kLimit);
    }
    if ((std::max(problem.m, problem.n) / 192 + 1) * (problem.k / 64 + 1) > kLimit / 48 ||
        (problem.m / 16 + 1) * (problem.n / 64 + 1) > kLimit) {
      return "takes up to 2^39 elements of A, as many of B, and 2^40 of D";
    }
    return "";
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    const Tiling* const tiling = TilingOf(config);
    return tiling == nullptr ? 0 : hopper::f16x3::WorkspaceOf(*tiling, problem).bytes();
  }

  // A receipt shows it: the error that the elements themselves do not bound is part of it.
  std::string NumericsId(const Problem&) const override {
    return "f16x3-k64:f32:compensated:2^-38*K*max|a|*max|b|";
  }

 private:
  double PredictedTilingUs(const Tiling& tiling, const Problem& problem,
                           const DeviceTraits& device) const override {
    return PredictedUsOf(tiling, problem, device);
  }

  absl::Status LaunchTiling(int tiling, const Problem& problem, const Config& config,
                            const Arguments& arguments, const LaunchTarget& target) const override {
    return hopper::f16x3::ProductFor(target, tiling)(problem, config, arguments, target);
  }

  Config ConfigOf(const Tiling& tiling) const override {
    Config config;
    config.tile_m = tiling.columns();
    config.tile_n = tiling.rows();
    config.tile_k = 64;
    config.stages = tiling.max_stages;
    config.warps = 4 * (tiling.row_groups + 1);
    config.raster_group = 8;
    return config;
  }
};

}  // namespace

void AppendHopperF16x3(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<F16x3Entry>());
}

}  // namespace gemmd
