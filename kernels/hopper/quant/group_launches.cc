#include "kernels/hopper/quant/group_launches.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

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
// Many groups of few rows reach so much (an H200).
constexpr double kOfBandwidth = 0.8;

bool IsFew(int tiling) { return tiling < kFewGroupTilings; }

FewTiling FewOf(CodeFormat format, int tiling) {
  return FewTilingOf(format, FewTilingOfGroups(format, kGroupRows[tiling]));
}
WideTiling WideOf(CodeFormat format, int tiling) {
  return WideTilingOf(format, WideTilingOfGroups(format, kGroupRows[tiling]));
}

// Lines of a cluster's tiles.
int LinesOf(CodeFormat format, int tiling) {
  if (IsFew(tiling))
    return FewOf(format, tiling).strips * kStripLines;
  const WideTiling wide = WideOf(format, tiling);
  return wide.groups * wide.line_blocks * wide.cluster * kChunkLines;
}

bool Takes(const Problem &problem, int tiling) {
  const CodeFormat format = CodeFormatOf(problem);
  if (tiling >= GroupTilingCount(format))
    return false;
  return IsFew(tiling) ||
         ChunksOf(problem.n) * kChunkLines % LinesOf(format, tiling) == 0;
}

// Bytes of a product's B.
double WeightBytes(const Problem &problem) {
  std::uint64_t packed = PackedBytes(problem, WeightPlane::kCodes) +
                         PackedBytes(problem, WeightPlane::kScales);
  if (problem.b_scaling.has_offsets)
    packed += PackedBytes(problem, WeightPlane::kOffsets);
  return static_cast<double>(packed);
}

// Groups that one launch takes.
struct Load {
  std::int64_t groups = 0;
  std::int64_t rows = 0;
  std::int64_t row_tiles = 0;
};

// The time of a launch in the tiling.
double PredictedTilingUs(const Load &load, int tiling, const Problem &problem,
                         const DeviceTraits &device) {
  if (device.kind == DeviceKind::kEmulated) {
    return static_cast<double>(load.row_tiles * kGroupRows[tiling] * problem.n *
                               problem.k) /
           kEmulatedMacsPerUs;
  }
  const CodeFormat format = CodeFormatOf(problem);
  const int cluster = IsFew(tiling) ? 1 : WideOf(format, tiling).cluster;
  const int blocks = IsFew(tiling) ? FewOf(format, tiling).blocks
                                   : WideOf(format, tiling).blocks;
  const TilingCost cost =
      IsFew(tiling) ? FewOf(format, tiling).cost : WideOf(format, tiling).cost;
  const std::int64_t tiles =
      load.row_tiles *
      CeilOfRatio(problem.n, std::int64_t{LinesOf(format, tiling)});
  const std::int64_t places =
      std::max(1, device.compute_units * blocks / cluster);
  const double compute_us = static_cast<double>(CeilOfRatio(tiles, places)) *
                            static_cast<double>(GroupsOf(problem.k)) *
                            cost.full_group_us;
  const double element = static_cast<double>(SizeBits(problem.d.type)) / 8;
  const double bytes = static_cast<double>(load.groups) * WeightBytes(problem) +
                       static_cast<double>(load.rows) *
                           (2 * static_cast<double>(problem.k) +
                            element * static_cast<double>(problem.n));
  return cost.launch_us +
         std::max(compute_us,
                  bytes / (kOfBandwidth * device.memory_gbps * 1e3));
}

// The tilings of some launches, a bit each.
using Tilings = unsigned;

// The tiling among them for groups of so many rows: the first that has room, or
// the last, by several tiles of many rows. Nothing: there is none.
std::optional<int> TilingFor(std::int64_t rows, Tilings tilings) {
  std::optional<int> last;
  for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
    if ((tilings >> tiling & 1) == 0)
      continue;
    if (rows <= kGroupRows[tiling])
      return tiling;
    last = tiling;
  }
  return last.has_value() && !IsFew(*last) ? last : std::nullopt;
}

// Groups by the tiling that is the first with room for them, and what they are
// in each.
struct Classes {
  explicit Classes(const RowGroups &groups) {
    std::int64_t begin = 0;
    for (const std::int64_t end : groups.row_ends) {
      const std::int64_t rows = end - begin;
      begin = end;
      if (rows == 0)
        continue;
      const int own = GroupTilingFor(rows);
      for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
        Load &load = loads[own][tiling];
        load.groups += 1;
        load.rows += rows;
        load.row_tiles += CeilOfRatio(rows, std::int64_t{kGroupRows[tiling]});
      }
    }
  }

  Load loads[kGroupTilings][kGroupTilings]; // of a class, by tiling
};

// Of all tilings that take the problem those whose launches are predicted to
// take the least time: a launch more costs its begin and its end, a larger
// tiling for few rows work for nothing.
Tilings QuickestTilings(const Classes &classes, const Problem &problem,
                        const DeviceTraits &device, double *quickest_us) {
  Tilings taken = 0;
  for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
    if (Takes(problem, tiling))
      taken |= 1U << tiling;
  }
  Tilings quickest = taken;
  *quickest_us = std::numeric_limits<double>::infinity();
  for (Tilings some = 0; some < 1U << kGroupTilings; ++some) {
    if ((some & ~taken) != 0)
      continue;
    Load loads[kGroupTilings];
    bool is_whole = true;
    for (int own = 0; own < kGroupTilings; ++own) {
      if (classes.loads[own][own].groups == 0 ||
          !TilingFor(kGroupRows[own], taken))
        continue;
      const std::optional<int> tiling = TilingFor(kGroupRows[own], some);
      is_whole = is_whole && tiling.has_value();
      if (!tiling.has_value())
        break;
      const Load &more = classes.loads[own][*tiling];
      loads[*tiling].groups += more.groups;
      loads[*tiling].rows += more.rows;
      loads[*tiling].row_tiles += more.row_tiles;
    }
    if (!is_whole)
      continue;
    double us = 0;
    for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
      if (loads[tiling].groups == 0)
        continue;
      us += PredictedTilingUs(loads[tiling], tiling, problem, device);
    }
    if (us >= *quickest_us)
      continue;
    quickest = some;
    *quickest_us = us;
  }
  return quickest;
}

using LaunchFunction = absl::Status(const Problem &, const PackedGroups &,
                                    const Arguments &, const LaunchTarget &);
LaunchFunction *LaunchOf(CodeFormat format, int tiling,
                         const LaunchTarget &target) {
  // The launches of a format have its name.
#define GEMMD_CASE(format)                                                     \
  case CodeFormat::k##format:                                                  \
    static_assert(kGroups##format##Variants ==                                 \
                  GroupTilingCount(CodeFormat::k##format));                    \
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

} // namespace

GroupsByTiling ByTiling(const Problem &problem, const RowGroups &groups,
                        const DeviceTraits &device) {
  GroupsByTiling by;
  const Tilings tilings =
      QuickestTilings(Classes(groups), problem, device, &by.predicted_us);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < groups.row_ends.size(); ++i) {
    const PackedGroup group = {begin, groups.row_ends[i],
                               static_cast<std::int64_t>(i)};
    begin = group.end;
    if (group.begin == group.end)
      continue;
    const std::optional<int> tiling =
        TilingFor(group.end - group.begin, tilings);
    (tiling.has_value() ? by.of_tiling[*tiling] : by.alone).push_back(group);
  }
  return by;
}

absl::Status LaunchTilings(const GroupsByTiling &by_tiling,
                           const Problem &problem, const RowGroups &groups,
                           const Arguments &arguments,
                           const LaunchTarget &target) {
  PackedGroups launched;
  launched.matrices =
      groups.b_step /
      static_cast<std::int64_t>(PackedBytes(problem, WeightPlane::kCodes));
  launched.bias_step = groups.bias_step;
  // Those of many rows first: others begin where they leave multiprocessors.
  for (int tiling = kGroupTilings - 1; tiling >= 0; --tiling) {
    launched.groups = by_tiling.of_tiling[tiling];
    if (launched.groups.empty())
      continue;
    absl::Status status = LaunchOf(CodeFormatOf(problem), tiling, target)(
        problem, launched, arguments, target);
    if (!status.ok())
      return status;
  }
  return absl::OkStatus();
}

} // namespace gemmd::hopper::quant
