#include "kernels/hopper/quant/group_launches.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "kernels/hopper/quant/groups_e4m3_entries.h"
#include "kernels/hopper/quant/groups_e5m2_entries.h"
#include "kernels/hopper/quant/groups_int4_entries.h"
#include "kernels/hopper/quant/groups_int4_g32_entries.h"
#include "kernels/hopper/quant/groups_int4_g64_entries.h"
#include "kernels/hopper/quant/groups_int8_entries.h"
#include "kernels/hopper/quant/groups_int8_g32_entries.h"
#include "kernels/hopper/quant/groups_int8_g64_entries.h"
#include "kernels/hopper/quant/groups_iq4_nl_g32_entries.h"
#include "kernels/hopper/quant/groups_iq4_nl_g32_float_entries.h"
#include "kernels/hopper/quant/groups_mx_e2m3_entries.h"
#include "kernels/hopper/quant/groups_mx_e3m2_entries.h"
#include "kernels/hopper/quant/groups_mx_e4m3_entries.h"
#include "kernels/hopper/quant/groups_mx_e5m2_entries.h"
#include "kernels/hopper/quant/groups_mxfp4_entries.h"
#include "kernels/hopper/quant/groups_nvfp4_entries.h"
#include "kernels/hopper/quant/groups_table_g64_float_entries.h"
#include "kernels/hopper/quant/groups_uint4_g32_float_offset_entries.h"
#include "kernels/hopper/quant/groups_uint4_g32_offset_entries.h"
#include "kernels/hopper/quant/groups_uint4_g64_offset_entries.h"
#include "kernels/hopper/quant/groups_uint4_offset_entries.h"
#include "kernels/hopper/quant/groups_uint8_g32_offset_entries.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/hopper/quant/tilings.h"

namespace gemmd::hopper::quant {
namespace {

constexpr double kEmulatedMacsPerUs = 20;
// What many groups of few rows reach.
constexpr double kOfBandwidth = 0.85;

bool IsFew(int tiling) { return tiling < kFewGroupTilings; }

FewTiling FewOf(CodeFormat format, int tiling) {
  return FewTilingOf(format, FewTilingOfGroups(format, kGroupRows[tiling]));
}
WideTiling WideOf(CodeFormat format, int tiling) {
  return WideTilingOf(format, WideTilingOfGroups(format, kGroupRows[tiling]));
}

// Lines of a cluster's tiles.
int LinesOf(CodeFormat format, int tiling) {
  if (IsFew(tiling)) return FewOf(format, tiling).strips * kStripLines;
  const WideTiling wide = WideOf(format, tiling);
  return wide.groups * wide.line_blocks * wide.cluster * kChunkLines;
}

bool Takes(const Problem& problem, int tiling) {
  const CodeFormat format = CodeFormatOf(problem);
  if (tiling >= GroupTilingCount(format)) return false;
  return IsFew(tiling) || ChunksOf(problem.n) * kChunkLines % LinesOf(format, tiling) == 0;
}

// Bytes of a product's B.
double WeightBytes(const Problem& problem) {
  std::uint64_t packed =
      PackedBytes(problem, WeightPlane::kCodes) + PackedBytes(problem, WeightPlane::kScales);
  if (problem.b_scaling.has_offsets) packed += PackedBytes(problem, WeightPlane::kOffsets);
  return static_cast<double>(packed);
}

double PredictedTilingUs(const std::vector<PackedGroup>& groups, int tiling, const Problem& problem,
                         const DeviceTraits& device) {
  std::int64_t rows = 0;
  std::int64_t row_tiles = 0;
  for (const PackedGroup& group : groups) {
    rows += group.end - group.begin;
    row_tiles += CeilOfRatio(group.end - group.begin, std::int64_t{kGroupRows[tiling]});
  }
  if (device.kind == DeviceKind::kEmulated) {
    return static_cast<double>(row_tiles * kGroupRows[tiling] * problem.n * problem.k) /
           kEmulatedMacsPerUs;
  }
  const CodeFormat format = CodeFormatOf(problem);
  const int cluster = IsFew(tiling) ? 1 : WideOf(format, tiling).cluster;
  const int blocks = IsFew(tiling) ? FewOf(format, tiling).blocks : WideOf(format, tiling).blocks;
  const TilingCost cost = IsFew(tiling) ? FewOf(format, tiling).cost : WideOf(format, tiling).cost;
  const std::int64_t tiles =
      row_tiles * CeilOfRatio(problem.n, std::int64_t{LinesOf(format, tiling)});
  const std::int64_t places = std::max(1, device.compute_units * blocks / cluster);
  // Blocks begin when others end, so the last wave need not be whole.
  const double waves = std::max(1.0, static_cast<double>(tiles) / static_cast<double>(places));
  const double compute_us = waves * static_cast<double>(GroupsOf(problem.k)) * cost.full_group_us;
  const double element = static_cast<double>(SizeBits(problem.d.type)) / 8;
  const double bytes = static_cast<double>(groups.size()) * WeightBytes(problem) +
                       static_cast<double>(rows) * (2 * static_cast<double>(problem.k) +
                                                    element * static_cast<double>(problem.n));
  return cost.launch_us + std::max(compute_us, bytes / (kOfBandwidth * device.memory_gbps * 1e3));
}

using LaunchFunction = absl::Status(const Problem&, const PackedGroups&, const Arguments&,
                                    const LaunchTarget&);
LaunchFunction* LaunchOf(CodeFormat format, int tiling, const LaunchTarget& target) {
  // The launches of a format have its name.
#define GEMMD_CASE(format)                                                               \
  case CodeFormat::k##format:                                                            \
    static_assert(kGroups##format##Variants == GroupTilingCount(CodeFormat::k##format)); \
    return Groups##format##For(target, tiling);
  switch (format) {
    GEMMD_CASE(Int4)
    GEMMD_CASE(Int4G64)
    GEMMD_CASE(Int4G32)
    GEMMD_CASE(Uint4Offset)
    GEMMD_CASE(Uint4G64Offset)
    GEMMD_CASE(Uint4G32Offset)
    GEMMD_CASE(Uint4G32FloatOffset)
    GEMMD_CASE(TableG64Float)
    GEMMD_CASE(Iq4NlG32)
    GEMMD_CASE(Iq4NlG32Float)
    GEMMD_CASE(Mxfp4)
    GEMMD_CASE(Nvfp4)
    GEMMD_CASE(Int8)
    GEMMD_CASE(Int8G64)
    GEMMD_CASE(Int8G32)
    GEMMD_CASE(Uint8G32Offset)
    GEMMD_CASE(E4m3)
    GEMMD_CASE(E5m2)
    GEMMD_CASE(MxE4m3)
    GEMMD_CASE(MxE5m2)
    GEMMD_CASE(MxE3m2)
    GEMMD_CASE(MxE2m3)
  }
#undef GEMMD_CASE
  return nullptr;
}

}  // namespace

GroupsByTiling ByTiling(const Problem& problem, const RowGroups& groups) {
  GroupsByTiling by;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < groups.row_ends.size(); ++i) {
    const PackedGroup group = {begin, groups.row_ends[i], static_cast<std::int64_t>(i)};
    begin = group.end;
    if (group.begin == group.end) continue;
    const int tiling = GroupTilingFor(group.end - group.begin);
    (Takes(problem, tiling) ? by.of_tiling[tiling] : by.alone).push_back(group);
  }
  return by;
}

double PredictedUs(const GroupsByTiling& groups, const Problem& problem,
                   const DeviceTraits& device) {
  double us = 0;
  for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
    const std::vector<PackedGroup>& its = groups.of_tiling[tiling];
    if (!its.empty()) us += PredictedTilingUs(its, tiling, problem, device);
  }
  return us;
}

absl::Status LaunchTilings(const GroupsByTiling& by_tiling, const Problem& problem,
                           const RowGroups& groups, const Arguments& arguments,
                           const LaunchTarget& target) {
  PackedGroups launched;
  launched.matrices =
      groups.b_step / static_cast<std::int64_t>(PackedBytes(problem, WeightPlane::kCodes));
  launched.bias_step = groups.bias_step;
  // Those of many rows first: others begin where they leave multiprocessors.
  for (int tiling = kGroupTilings - 1; tiling >= 0; --tiling) {
    launched.groups = by_tiling.of_tiling[tiling];
    if (launched.groups.empty()) continue;
    absl::Status status =
        LaunchOf(CodeFormatOf(problem), tiling, target)(problem, launched, arguments, target);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace gemmd::hopper::quant
