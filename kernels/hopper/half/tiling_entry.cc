#include "kernels/hopper/half/tiling_entry.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/hopper/half/predicted_time.h"
#include "kernels/hopper/small/small_batches.h"
#include "kernels/hopper/small/small_entries.h"

namespace gemmd::hopper::half {

TilingEntry::TilingEntry(Traits traits, const Tiling& tiling, int tile_k,
                         double emulated_macs_per_us)
    : Kernel(std::move(traits)),
      tiling_(tiling),
      tile_k_(tile_k),
      emulated_macs_per_us_(emulated_macs_per_us) {}

std::string TilingEntry::UnavailableReason(const DeviceTraits& device) const {
  return hopper::UnavailableReason(device);
}

std::string TilingEntry::SizeRejection(const Problem& problem) const {
  // Coordinates are 32 bits wide, with room for a tile past the end.
  constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 1024;
  const Problem units = InUnits(problem);
  if (std::max({units.m, units.n, units.k}) > kLimit) {
    const bool k_counts_more = units.k != problem.k;
    return absl::StrCat("takes dimensions up to ", kLimit,
                        k_counts_more ? ", and half of that along K" : "");
  }
  const Frame frame = MakeFrame(problem, {});
  const std::int64_t tiles = std::int64_t{1} * FrameTiles(frame.rows.lines, tiling_.tile_m) *
                             FrameTiles(frame.columns.lines, tiling_.tile_n);
  if (tiles > kLimit) return absl::StrCat("takes up to ", kLimit, " tiles");
  return "";
}

Config TilingEntry::Configure(const Problem& problem, const DeviceTraits& /*device*/) const {
  Config config;
  config.tile_m = tiling_.tile_m;
  config.tile_n = tiling_.tile_n;
  config.tile_k = tile_k_;
  config.stages = tiling_.max_stages;
  config.cluster_m = tiling_.cluster_m;
  config.cluster_n = tiling_.cluster_n;
  config.warps = 4 * (tiling_.consumers + 1);
  SetRaster(tiling_, InUnits(problem), &config);
  return config;
}

std::vector<Config> TilingEntry::Alternatives(const Problem& problem,
                                              const DeviceTraits& device) const {
  return Rasters(tiling_, problem, Configure(problem, device));
}

double TilingEntry::PredictedUs(const Problem& problem, const Config& config,
                                const DeviceTraits& device) const {
  return PredictedBatchUs(problem, config, 1, device);
}

double TilingEntry::PredictedBatchUs(const Problem& problem, const Config& config,
                                     std::int64_t problems, const DeviceTraits& device) const {
  if (IsOfSmallProducts(problem, problems)) {
    return small::PredictedUs(problem, problems, device);
  }
  if (problems > 1 && !TakesBatches(tiling_)) {
    return Kernel::PredictedBatchUs(problem, config, problems, device);
  }
  if (device.kind != DeviceKind::kEmulated) {
    return PredictedTilingUs(tiling_, InUnits(problem), problems, device);
  }
  const Frame frame = MakeFrame(problem, {});
  const double tiles =
      static_cast<double>(FrameTiles(frame.rows.lines, tiling_.tile_m * tiling_.cluster_m)) *
      static_cast<double>(FrameTiles(frame.columns.lines, tiling_.tile_n * tiling_.cluster_n));
  return EmulatedUs(tiles * static_cast<double>(problems), problem.k);
}

double TilingEntry::PredictedGroupsUs(const Problem& problem, const Config& /*config*/,
                                      const RowGroups& groups, const DeviceTraits& device) const {
  if (device.kind == DeviceKind::kEmulated) {
    return EmulatedUs(GroupTiles(tiling_, problem, groups), problem.k);
  }
  return half::PredictedGroupsUs(tiling_, InUnits(problem), groups, device);
}

double TilingEntry::EmulatedUs(double tiles, std::int64_t k) const {
  return tiles * tiling_.tile_m * tiling_.cluster_m * tiling_.tile_n * tiling_.cluster_n *
         static_cast<double>(k) / emulated_macs_per_us_;
}

std::uint64_t TilingEntry::WorkspaceBytes(const Problem& /*problem*/,
                                          const Config& /*config*/) const {
  return 0;
}

absl::Status TilingEntry::Launch(const Problem& problem, const Config& config,
                                 const Arguments& arguments, const LaunchTarget& target) const {
  return LaunchBatch(problem, config, absl::MakeConstSpan(&arguments, 1), target);
}

absl::Status TilingEntry::LaunchBatch(const Problem& problem, const Config& config,
                                      absl::Span<const Arguments> batch,
                                      const LaunchTarget& target) const {
  if (IsOfSmallProducts(problem, static_cast<std::int64_t>(batch.size()))) {
    const int numbers = small::NumbersOf(problem.a.type);
    return small::SmallBatchFor(target, numbers)(problem, batch, target);
  }
  if (batch.size() > 1 && !TakesBatches(tiling_)) {
    return Kernel::LaunchBatch(problem, config, batch, target);
  }
  if (batch.empty()) return absl::OkStatus();
  return LaunchVariant(problem, config, batch, target);
}

}  // namespace gemmd::hopper::half
