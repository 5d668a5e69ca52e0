#include "kernels/hopper/quant/group_launches.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/math.h"
#include "kernels/hopper/quant/format_names.h"
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
// The share of an H200's bandwidth that is reached, and of the time of products that bytes do not
// hide.
constexpr double kOfBandwidth = 0.9;
constexpr double kOfComputeTime = 0.15;

bool IsFew(int tiling) { return tiling < kFewGroupTilings; }

FewTiling FewOf(CodeFormat format, int tiling) {
  return FewTilingOf(format, FewTilingOfGroups(format, kGroupRows[tiling]));
}
WideTiling WideOf(CodeFormat format, int tiling) {
  return WideTilingOf(format, WideTilingOfGroups(format, kGroupRows[tiling]));
}

// Groups that one launch takes.
struct Load {
  std::int64_t groups = 0;
  std::int64_t rows = 0;
  std::int64_t row_tiles = 0;
};

// The time of launches in a tiling. Made once a choice, which a launch waits for.
class TilingTime {
 public:
  TilingTime(const Problem& problem, int tiling, const DeviceTraits& device) {
    const CodeFormat format = CodeFormatOf(problem);
    if (tiling >= GroupTilingCount(format)) return;
    int lines = 0;  // of a cluster
    int cluster = 1;
    int blocks = 0;  // on a multiprocessor
    if (IsFew(tiling)) {
      const FewTiling few = FewOf(format, tiling);
      lines = few.strips * kStripLines;
      blocks = few.blocks;
      cost_ = few.cost;
    } else {
      const WideTiling wide = WideOf(format, tiling);
      lines = wide.groups * wide.line_blocks * wide.cluster * kChunkLines;
      cluster = wide.cluster;
      blocks = wide.blocks;
      cost_ = wide.cost;
    }
    takes_lines_ = IsFew(tiling) || ChunksOf(problem.n) * kChunkLines % lines == 0;
    line_tiles_ = CeilOfRatio(problem.n, std::int64_t{lines});
    places_ = std::max(1, device.compute_units * blocks / cluster);
    k_groups_ = static_cast<double>(GroupsOf(problem.k));
    weight_bytes_ = WeightBytes(problem);
    row_bytes_ = 2 * static_cast<double>(problem.k) +
                 static_cast<double>(SizeBits(problem.d.type)) / 8 * static_cast<double>(problem.n);
    bytes_per_us_ = kOfBandwidth * device.memory_gbps * 1e3;
    if (device.kind == DeviceKind::kEmulated) {
      emulated_tile_us_ =
          static_cast<double>(kGroupRows[tiling] * problem.n * problem.k) / kEmulatedMacsPerUs;
    }
  }

  // Returns whether the tiling takes the problem's lines, with what goes with its weights.
  bool takes_lines() const { return takes_lines_; }

  double Us(const Load& load) const {
    if (emulated_tile_us_ > 0) return static_cast<double>(load.row_tiles) * emulated_tile_us_;
    const std::int64_t waves = CeilOfRatio(load.row_tiles * line_tiles_, places_);
    const double compute_us = static_cast<double>(waves) * k_groups_ * cost_.full_group_us;
    const double bytes = static_cast<double>(load.groups) * weight_bytes_ +
                         static_cast<double>(load.rows) * row_bytes_;
    return cost_.launch_us + std::max(compute_us, bytes / bytes_per_us_) +
           kOfComputeTime * compute_us;
  }

 private:
  // Bytes of a product's B.
  static double WeightBytes(const Problem& problem) {
    std::uint64_t packed =
        PackedBytes(problem, WeightPlane::kCodes) + PackedBytes(problem, WeightPlane::kScales);
    if (problem.b_scaling.has_offsets) packed += PackedBytes(problem, WeightPlane::kOffsets);
    return static_cast<double>(packed);
  }

  bool takes_lines_ = false;
  TilingCost cost_ = {};
  std::int64_t line_tiles_ = 0;
  std::int64_t places_ = 1;
  double k_groups_ = 0;
  double weight_bytes_ = 0;
  double row_bytes_ = 0;
  double bytes_per_us_ = 1;
  double emulated_tile_us_ = 0;
};

// The tilings of some launches, a bit each.
using Tilings = unsigned;

bool Has(Tilings tilings, int tiling) { return (tilings >> tiling & 1) != 0; }

// The tiling among them for groups of so many rows: the first that has room, or the last, by
// several tiles of many rows; -1 if there is none.
int TilingFor(std::int64_t rows, Tilings tilings) {
  int last = -1;
  for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
    if (!Has(tilings, tiling)) continue;
    if (rows <= kGroupRows[tiling]) return tiling;
    last = tiling;
  }
  return last >= kFewGroupTilings ? last : -1;
}

// Groups by the tiling that is the first with room for them, and what they are in each.
struct Classes {
  explicit Classes(const RowGroups& groups) {
    std::int64_t begin = 0;
    for (const std::int64_t end : groups.row_ends) {
      const std::int64_t rows = end - begin;
      begin = end;
      if (rows == 0) continue;
      const int own = GroupTilingFor(rows);
      for (int tiling = own; tiling < kGroupTilings; ++tiling) Add(rows, tiling, own);
      for (int tiling = kFewGroupTilings; tiling < own; ++tiling) Add(rows, tiling, own);
    }
  }

  Load loads[kGroupTilings][kGroupTilings];  // of a class, by tiling

 private:
  void Add(std::int64_t rows, int tiling, int own) {
    Load& load = loads[own][tiling];
    load.groups += 1;
    load.rows += rows;
    load.row_tiles += CeilOfRatio(rows, std::int64_t{kGroupRows[tiling]});
  }
};

// Returns the tilings whose launches take least, of those that take the problem: a launch more
// costs its begin and its end, a larger tiling for few rows work for nothing.
Tilings QuickestTilings(const Classes& classes, const Problem& problem, const DeviceTraits& device,
                        double* quickest_us) {
  std::vector<TilingTime> times;
  times.reserve(kGroupTilings);
  Tilings taken = 0;
  for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
    times.emplace_back(problem, tiling, device);
    if (times.back().takes_lines()) taken |= 1U << tiling;
  }
  Tilings quickest = taken;
  *quickest_us = std::numeric_limits<double>::infinity();
  for (Tilings some = 0; some <= taken; ++some) {
    if ((some & ~taken) != 0) continue;
    Load loads[kGroupTilings];
    bool takes_all = true;
    for (int own = 0; own < kGroupTilings; ++own) {
      // Groups that no tiling takes go alone in any case.
      if (classes.loads[own][own].groups == 0 || TilingFor(kGroupRows[own], taken) < 0) continue;
      const int tiling = TilingFor(kGroupRows[own], some);
      takes_all = takes_all && tiling >= 0;
      if (tiling < 0) break;
      const Load& more = classes.loads[own][tiling];
      loads[tiling].groups += more.groups;
      loads[tiling].rows += more.rows;
      loads[tiling].row_tiles += more.row_tiles;
    }
    if (!takes_all) continue;
    double us = 0;
    for (int tiling = 0; tiling < kGroupTilings; ++tiling) {
      if (loads[tiling].groups != 0)
        us += times[static_cast<std::size_t>(tiling)].Us(loads[tiling]);
    }
    if (us >= *quickest_us) continue;
    quickest = some;
    *quickest_us = us;
  }
  return quickest;
}

using LaunchFunction = absl::Status(const Problem&, const PackedGroups&, const Arguments&,
                                    const LaunchTarget&);
LaunchFunction* LaunchOf(CodeFormat format, int tiling, const LaunchTarget& target) {
  // The launches of a format have its name.
#define GEMMD_CASE(format)                                                               \
  case CodeFormat::k##format:                                                            \
    static_assert(kGroups##format##Variants == GroupTilingCount(CodeFormat::k##format)); \
    return Groups##format##For(target, tiling);
  switch (format) { GEMMD_QUANT_FORMATS(GEMMD_CASE) }
#undef GEMMD_CASE
  return nullptr;
}

}  // namespace

GroupsByTiling ByTiling(const Problem& problem, const RowGroups& groups,
                        const DeviceTraits& device) {
  GroupsByTiling by;
  const Tilings tilings = QuickestTilings(Classes(groups), problem, device, &by.predicted_us);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < groups.row_ends.size(); ++i) {
    const PackedGroup group = {begin, groups.row_ends[i], static_cast<std::int64_t>(i)};
    begin = group.end;
    if (group.begin == group.end) continue;
    const int tiling = TilingFor(group.end - group.begin, tilings);
    (tiling >= 0 ? by.of_tiling[tiling] : by.alone).push_back(group);
  }
  return by;
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
