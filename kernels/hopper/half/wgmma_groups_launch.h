// Host code of the Hopper GEMM on groups of rows, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/hopper/half/wgmma_gemm_launch.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Rows of a group that are walked together, as those of a plain product's raster.
inline constexpr int kBandRows = 1024;

// Groups of one launch: those in the table, which has no empty ones.
struct GroupPart {
  std::size_t end = 0;  // in all groups
  std::uint32_t rows_of_tiles = 0;
  std::int64_t longest = 0;  // rows of a group
};

// Orders groups so that those of several rows of tiles lie evenly among those of one: tiles at work
// at one time then share what binds them, products and bytes of B.
inline void Spread(int cluster_rows, GroupTable* table) {
  std::vector<GroupRows> high;
  std::vector<GroupRows> low;
  for (std::uint32_t i = 0; i < table->count; ++i) {
    const GroupRows& group = table->rows[i];
    (group.end - group.begin > cluster_rows ? high : low).push_back(group);
  }
  if (high.empty() || low.empty()) return;
  std::size_t next_high = 0;
  std::size_t next_low = 0;
  for (std::uint32_t i = 0; i < table->count; ++i) {
    const bool is_high =
        next_low == low.size() ||
        (next_high < high.size() && next_high * low.size() <= next_low * high.size());
    table->rows[i] = is_high ? high[next_high++] : low[next_low++];
  }
}

// Fills the table with groups from `first` on, as many as it and a launch hold.
template <class Layout>
GroupPart FillTable(const RowGroups& groups, std::size_t first, std::uint32_t columns_of_tiles,
                    GroupTable* table) {
  constexpr int kClusterRows = Layout::kTileM * Layout::kClusterM;
  GroupPart part;
  part.end = first;
  table->count = 0;
  std::int64_t begin = first == 0 ? 0 : groups.row_ends[first - 1];
  for (; part.end < groups.row_ends.size() && table->count < kGroupCapacity; ++part.end) {
    const std::int64_t end = groups.row_ends[part.end];
    const std::uint32_t tiles = FrameTiles(end - begin, kClusterRows);
    if (tiles > 0) {
      if (part.rows_of_tiles + tiles > kMaxTiles / columns_of_tiles && table->count > 0) break;
      table->rows[table->count++] = {static_cast<std::int32_t>(begin),
                                     static_cast<std::int32_t>(end), 0,
                                     static_cast<std::int32_t>(part.end)};
      part.rows_of_tiles += tiles;
      part.longest = std::max(part.longest, end - begin);
    }
    begin = end;
  }
  Spread(kClusterRows, table);
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < table->count; ++i) {
    GroupRows& group = table->rows[i];
    group.first_tile = next;
    next += FrameTiles(group.end - group.begin, kClusterRows);
  }
  return part;
}

// Sets the boxes for tiles of few rows: rows of other groups would cost as much as their own.
template <class Layout, class Element>
absl::Status SetShortBoxes(const Problem& problem, const Frame& frame, WgmmaGroupParams* params) {
  params->short_boxes = 0;
  constexpr bool kHasShort = Layout::kCluster == 1;
  for (const std::uint32_t lines : {std::uint32_t{16}, std::uint32_t{Layout::kTileM / 2}}) {
    if (!kHasShort || lines >= params->box_rows) continue;
    const absl::StatusOr<ptx::TensorMap> map = RowsMap<Element>(problem, frame, lines);
    if (!map.ok()) return map.status();
    params->short_box[params->short_boxes++] = {*map, lines};
  }
  return absl::OkStatus();
}

inline std::vector<ptx::DeviceBuffer> BuffersOfGroups(const Problem& problem,
                                                      const RowGroups& groups,
                                                      const Arguments& arguments) {
  std::vector<ptx::DeviceBuffer> buffers;
  AddBuffers(problem, arguments, &buffers);
  const std::uint64_t others = groups.row_ends.size() - 1;
  for (ptx::DeviceBuffer& buffer : buffers) {
    if (buffer.data == arguments.b) {
      buffer.bytes += others * static_cast<std::uint64_t>(groups.b_step);
    } else if (buffer.data == arguments.bias) {
      buffer.bytes += others * static_cast<std::uint64_t>(groups.bias_step);
    }
  }
  return buffers;
}

template <int kTiling, class Element, Major kColumnMajor, bool kHasEpilogue>
absl::Status QueueGroups(const Problem& problem, const Config& config, const RowGroups& groups,
                         const Arguments& arguments, const LaunchTarget& target) {
  using Layout = WgmmaLayout<kTiling, Major::kK, kColumnMajor>;
  const Frame frame = MakeFrame(problem, arguments);
  const std::uint32_t columns_of_tiles = FrameTiles(frame.columns.lines, Layout::kTileN);
  MapDepth depth;
  depth.of = Products::kGroups;
  depth.problems = groups.row_ends.size();
  depth.steps.b = groups.b_step;
  for (std::size_t next = 0; next < groups.row_ends.size();) {
    WgmmaGroupParams params = {};
    const GroupPart part = FillTable<Layout>(groups, next, columns_of_tiles, &params);
    next = part.end;
    if (params.count == 0) continue;
    SetShape<Layout, Element>(problem, config, frame, part.rows_of_tiles, part.longest, &params);
    params.prefetched = 0;
    params.bias_step = groups.bias_step;
    params.band = kBandRows / (Layout::kTileM * Layout::kClusterM);
    if (absl::Status s = SetShortBoxes<Layout, Element>(problem, frame, &params); !s.ok()) return s;
    SetSettled<Layout>(frame, absl::MakeConstSpan(&arguments, 1), &params);
    const absl::StatusOr<WgmmaOperands> operands = MakeOperands<Layout, Element, kHasEpilogue>(
        problem, frame, arguments, params.box_rows, depth);
    if (!operands.ok()) return operands.status();
    params.operands[0] = *operands;
    const absl::Status status = Queue<kTiling, Element, Major::kK, kColumnMajor, kHasEpilogue>(
        params, BuffersOfGroups(problem, groups, arguments), target);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <int kTiling, class Element>
absl::Status LaunchGroupsOf(const Problem& problem, const Config& config, const RowGroups& groups,
                            const Arguments& arguments, const LaunchTarget& target) {
  const bool is_k_major = problem.b_is_k_major();
  if (NeedsEpilogue(problem)) {
    return is_k_major ? QueueGroups<kTiling, Element, Major::kK, true>(problem, config, groups,
                                                                       arguments, target)
                      : QueueGroups<kTiling, Element, Major::kMn, true>(problem, config, groups,
                                                                        arguments, target);
  }
  return is_k_major ? QueueGroups<kTiling, Element, Major::kK, false>(problem, config, groups,
                                                                      arguments, target)
                    : QueueGroups<kTiling, Element, Major::kMn, false>(problem, config, groups,
                                                                       arguments, target);
}

// REQUIRES: TakesGroups() of the tiling's entry.
template <int kTiling>
absl::Status LaunchGroupTiling(const Problem& problem, const Config& config,
                               const RowGroups& groups, const Arguments& arguments,
                               const LaunchTarget& target) {
  static_assert(kTilings[kTiling].takes_groups && kTilings[kTiling].has_epilogue);
  if (problem.a.type == DataType::kBf16) {
    return LaunchGroupsOf<kTiling, Bf16Element>(problem, config, groups, arguments, target);
  }
  return LaunchGroupsOf<kTiling, F16Element>(problem, config, groups, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
