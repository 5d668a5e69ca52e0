#include "kernels/hopper/quant/forms.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/tilings.h"

namespace gemmd::hopper::quant {
namespace {

constexpr double kEmulatedMacsPerUs = 20;

std::int64_t CeilOfRatio(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

const FewTiling& FewOf(const Form& form) {
  return form.kind == FormKind::kChain ? kChainTilings[form.tiling] : kFewTilings[form.tiling];
}

int LinesOf(const Form& form) {
  if (form.kind != FormKind::kWide) return FewOf(form).strips * kStripLines;
  const WideTiling& tiling = kWideTilings[form.tiling];
  return tiling.groups * tiling.line_blocks * kChunkLines;
}

int RowsOf(const Form& form) {
  return form.kind == FormKind::kWide ? kWideTilings[form.tiling].rows : FewOf(form).rows;
}

int BlocksOf(const Form& form) {
  return form.kind == FormKind::kWide ? kWideTilings[form.tiling].blocks : FewOf(form).blocks;
}

const TilingCost& CostOf(const Form& form, CodeFormat format) {
  if (form.kind != FormKind::kWide) return FewOf(form).cost;
  return format == CodeFormat::kInteger ? kWideTilings[form.tiling].cost
                                        : kWideChainCosts[form.tiling];
}

// Bytes of A, B and D that the product moves.
double BytesOf(const Problem& problem) {
  const auto units = static_cast<std::uint64_t>(UnitsOf(problem.n, problem.k));
  const auto scale_bytes = static_cast<std::uint64_t>(ScaleBytes(CodeFormatOf(problem)));
  return static_cast<double>(units * (kCodeBytes + scale_bytes) + problem.a.size_bytes() +
                             problem.d.size_bytes());
}

}  // namespace

const std::vector<Form>& FormsOf(CodeFormat format) {
  const auto make = [](FormKind of_few_rows, int count) {
    auto* all = new std::vector<Form>;
    for (int i = 0; i < count; ++i) all->push_back({of_few_rows, i});
    for (int i = 0; i < kWideTilingCount; ++i) all->push_back({FormKind::kWide, i});
    return all;
  };
  static const auto* const of_integers = make(FormKind::kFew, kFewTilingCount);
  static const auto* const of_chains = make(FormKind::kChain, kChainTilingCount);
  return format == CodeFormat::kInteger ? *of_integers : *of_chains;
}

Config ConfigOf(const Form& form) {
  Config config;
  config.tile_n = LinesOf(form);
  config.tile_k = kGroupK;
  if (form.kind != FormKind::kWide) {
    const FewTiling& tiling = FewOf(form);
    config.tile_m = tiling.rows;
    config.stages = tiling.weight_stages;
    config.warps = tiling.strips * tiling.splits + 2;
    config.split_k = tiling.splits;
    return config;
  }
  const WideTiling& tiling = kWideTilings[form.tiling];
  config.tile_m = tiling.rows;
  config.stages = tiling.stages;
  config.cluster_n = tiling.cluster;
  config.warps = 4 * tiling.groups + 2;
  return config;
}

bool Takes(const Form& form, const Problem& problem) {
  const CodeFormat format = CodeFormatOf(problem);
  if (form.kind != FormKind::kWide) {
    const FormKind of_format = format == CodeFormat::kInteger ? FormKind::kFew : FormKind::kChain;
    return form.kind == of_format && problem.m <= FewOf(form).rows;
  }
  const WideTiling& tiling = kWideTilings[form.tiling];
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
  const TilingCost& cost = CostOf(form, CodeFormatOf(problem));
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
