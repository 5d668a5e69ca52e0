#include "kernels/hopper/quant/forms.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "base/math.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/hopper/quant/tilings.h"

namespace gemmd::hopper::quant {
namespace {

constexpr double kEmulatedMacsPerUs = 20;

bool IsWide(const Form& form) { return form.kind == FormKind::kWide; }
FewTiling FewOf(const Form& form) { return FewTilingOf(form.format, form.tiling); }
WideTiling WideOf(const Form& form) { return WideTilingOf(form.format, form.tiling); }

int LinesOf(const Form& form) {
  if (!IsWide(form)) return FewOf(form).strips * kStripLines;
  const WideTiling tiling = WideOf(form);
  return tiling.groups * tiling.line_blocks * kChunkLines;
}

int RowsOf(const Form& form) { return IsWide(form) ? WideOf(form).rows : FewOf(form).rows; }

int BlocksOf(const Form& form) { return IsWide(form) ? WideOf(form).blocks : FewOf(form).blocks; }

TilingCost CostOf(const Form& form) { return IsWide(form) ? WideOf(form).cost : FewOf(form).cost; }

// Bytes of A, B and D that the product moves.
double BytesOf(const Problem& problem) {
  std::uint64_t packed =
      PackedBytes(problem, WeightPlane::kCodes) + PackedBytes(problem, WeightPlane::kScales);
  if (problem.b_scaling.has_offsets) packed += PackedBytes(problem, WeightPlane::kOffsets);
  return static_cast<double>(packed + problem.a.size_bytes() + problem.d.size_bytes());
}

}  // namespace

// Made once: each launch looks its form up.
const std::vector<Form>& FormsOf(CodeFormat format) {
  static const auto* const forms = [] {
    auto* all = new std::array<std::vector<Form>, std::size(kCodeFormats)>;
    for (const CodeFormat each : kCodeFormats) {
      std::vector<Form>& its = (*all)[static_cast<std::size_t>(each)];
      const auto few = static_cast<std::size_t>(FewTilingCount(each));
      const auto wide = static_cast<std::size_t>(WideTilingCount(each));
      its.reserve(few + wide);
      for (std::size_t i = 0; i < few; ++i) {
        its.push_back({each, FormKind::kFew, static_cast<int>(i)});
      }
      for (std::size_t i = 0; i < wide; ++i) {
        its.push_back({each, FormKind::kWide, static_cast<int>(i)});
      }
    }
    return all;
  }();
  return (*forms)[static_cast<std::size_t>(format)];
}

Config ConfigOf(const Form& form) {
  Config config;
  config.tile_n = LinesOf(form);
  config.tile_k = kGroupK;
  if (!IsWide(form)) {
    const FewTiling tiling = FewOf(form);
    config.tile_m = tiling.rows;
    config.stages = tiling.weight_stages;
    config.warps = tiling.strips * tiling.splits + 2;
    config.split_k = tiling.splits;
    return config;
  }
  const WideTiling tiling = WideOf(form);
  config.tile_m = tiling.rows;
  config.stages = tiling.stages;
  config.cluster_n = tiling.cluster;
  config.warps = 4 * tiling.groups + 2;
  return config;
}

bool Takes(const Form& form, const Problem& problem) {
  if (form.format != CodeFormatOf(problem)) return false;
  if (!IsWide(form)) return problem.m <= RowsOf(form);
  const WideTiling tiling = WideOf(form);
  const int chunks = tiling.groups * tiling.line_blocks * tiling.cluster;
  return ChunksOf(problem.n) % chunks == 0;
}

double PredictedUs(const Form& form, const Problem& problem, const DeviceTraits& device) {
  const std::int64_t row_tiles = CeilOfRatio(problem.m, RowsOf(form));
  if (device.kind == DeviceKind::kEmulated) {
    const std::int64_t macs = row_tiles * RowsOf(form) * problem.n * problem.k;
    return static_cast<double>(macs) / kEmulatedMacsPerUs;
  }
  const std::int64_t tiles = row_tiles * CeilOfRatio(problem.n, LinesOf(form));
  const std::int64_t units = std::max(1, device.compute_units);
  const std::int64_t waves = CeilOfRatio(tiles, units * BlocksOf(form));
  const TilingCost cost = CostOf(form);
  const double group_us = tiles > units ? cost.full_group_us : cost.group_us;
  const double compute_us = static_cast<double>(waves * GroupsOf(problem.k)) * group_us;
  const double memory_us = BytesOf(problem) / (cost.memory_share * device.memory_gbps * 1e3);
  return cost.launch_us + std::max(compute_us, memory_us);
}

Form QuickestForm(const Problem& problem, const DeviceTraits& device) {
  Form best;
  double best_us = std::numeric_limits<double>::infinity();
  for (const Form& form : FormsOf(CodeFormatOf(problem))) {
    if (!Takes(form, problem)) continue;
    const double us = PredictedUs(form, problem, device);
    if (us >= best_us) continue;
    best = form;
    best_us = us;
  }
  return best;
}

}  // namespace gemmd::hopper::quant
