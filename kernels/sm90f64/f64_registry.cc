#include "kernels/sm90f64/f64_registry.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/sm90/operand_rules.h"
#include "kernels/sm90f64/product_entries.h"
#include "kernels/sm90f64/tilings.h"

namespace gemmd {
namespace {

using sm90f64::kTilingCount;
using sm90f64::kTilings;
using sm90f64::Tiling;

static_assert(sm90f64::kProductVariants == kTilingCount);

constexpr double kCyclesPerUs = 1900;  // under load
// Of a tile: its first stage's way, and D's.
constexpr double kTileCycles = 3000;
constexpr double kLaunchUs = 2.5;
constexpr double kMemoryShare = 0.92;  // of what the memory could move
constexpr double kAlone = 0.1;
constexpr double kNotHidden = 0.05;  // of the shorter of loading and multiplying
constexpr double kEmulatedMacsPerUs = 100;

double CeilOfRatio(std::int64_t x, std::int64_t y) {
  return std::ceil(static_cast<double>(x) / static_cast<double>(y));
}

double PredictedTilingUs(const Tiling& tiling, const Problem& problem, const DeviceTraits& device) {
  const double tiles =
      CeilOfRatio(problem.n, tiling.rows()) * CeilOfRatio(problem.m, tiling.columns());
  if (device.kind == DeviceKind::kEmulated) {
    return tiles * tiling.rows() * tiling.columns() * static_cast<double>(problem.k) /
           kEmulatedMacsPerUs;
  }
  // Of the multiprocessor that has most. Blocks that share one hide each other's way to memory;
  // a tile that has it alone though others were to share it takes longer.
  const double turns = std::ceil(tiles / std::max(1, device.compute_units));
  const double alone = std::fmod(turns, tiling.blocks);
  const double cycles =
      (turns + kAlone * alone) * CeilOfRatio(problem.k, 16) * tiling.k_block_cycles +
      std::ceil(turns / tiling.blocks) * kTileCycles;
  double bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes());
  if (problem.epilogue.beta != 0) bytes += static_cast<double>(problem.c.size_bytes());
  const double at_work = cycles / kCyclesPerUs;
  const double on_the_way = bytes / (device.memory_gbps * 1e3 * kMemoryShare);
  return kLaunchUs + std::max(at_work, on_the_way) + kNotHidden * std::min(at_work, on_the_way);
}

Config ConfigOf(const Tiling& tiling) {
  Config config;
  config.tile_m = tiling.columns();
  config.tile_n = tiling.rows();
  config.tile_k = tiling.stage_k;
  config.stages = tiling.max_stages;
  config.warps = tiling.warps();
  config.raster_group = 16;
  return config;
}

// Of the config, however it walks the tiles; kTilingCount where it is none's.
int TilingOf(Config config) {
  const auto* const found =
      std::find_if(std::begin(kTilings), std::end(kTilings), [&](const Tiling& tiling) {
        config.raster_group = ConfigOf(tiling).raster_group;
        return ConfigOf(tiling) == config;
      });
  return static_cast<int>(found - std::begin(kTilings));
}

class F64Entry final : public Kernel {
 public:
  F64Entry()
      : Kernel({"sm90/f64", "sm_90a",
                "f64 on tensor cores, each sum one chain of fused multiply-adds",
                Determinism::kBatchInvariant}) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return sm90::UnavailableReason(device);
  }

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

  Config Configure(const Problem& problem, const DeviceTraits& device) const override {
    const Tiling* best = &kTilings[0];
    for (const Tiling& tiling : kTilings) {
      if (PredictedTilingUs(tiling, problem, device) < PredictedTilingUs(*best, problem, device)) {
        best = &tiling;
      }
    }
    return ConfigOf(*best);
  }

  std::vector<Config> Alternatives(const Problem& problem,
                                   const DeviceTraits& device) const override {
    std::vector<Config> configs = {Configure(problem, device)};
    for (const Tiling& tiling : kTilings) {
      for (const int group : {8, 16}) {
        Config config = ConfigOf(tiling);
        config.raster_group = group;
        if (config != configs[0]) configs.push_back(config);
      }
    }
    return configs;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    const int tiling = TilingOf(config);
    if (tiling == kTilingCount) return std::numeric_limits<double>::infinity();
    return PredictedTilingUs(kTilings[tiling], problem, device);
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config&) const override { return 0; }

  std::string NumericsId(const Problem&) const override { return "f64:fma-chain"; }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    const int tiling = TilingOf(config);
    if (tiling == kTilingCount) {
      return absl::InvalidArgumentError(
          absl::StrCat("sm90/f64 has no tiling of ", ToString(config)));
    }
    return sm90f64::ProductFor(target, tiling)(problem, config, arguments, target);
  }
};

}  // namespace

void AppendHopperF64(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<F64Entry>());
}

}  // namespace gemmd
