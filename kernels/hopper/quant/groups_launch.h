// Host code of groups of rows, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/hopper/quant/groups.h"
#include "kernels/hopper/quant/launch.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// Fills the parameters' table with the first groups, as many as it holds. Returns how many.
inline std::size_t SetGroups(const Problem& problem, const PackedGroups& groups, int tile_rows,
                             QuantGroupParams* params) {
  const auto step = [&](WeightPlane plane) {
    return groups.matrices * static_cast<std::int64_t>(PackedPlaneBytes(problem, plane));
  };
  params->code_step = step(WeightPlane::kCodes);
  params->scale_step = step(WeightPlane::kScales);
  params->shift_step = 0;
  if (problem.b_scaling.has_zero_points) params->shift_step = step(WeightPlane::kZeroPoints);
  if (problem.b_scaling.has_offsets) params->shift_step = step(WeightPlane::kOffsets);
  params->bias_step = groups.bias_step;
  params->count =
      static_cast<std::uint32_t>(std::min<std::size_t>(groups.groups.size(), kGroupCapacity));
  params->tiles_m = 0;
  for (std::uint32_t i = 0; i < params->count; ++i) {
    const PackedGroup& group = groups.groups[i];
    params->groups[i] = {static_cast<std::int32_t>(group.begin),
                         static_cast<std::int32_t>(group.end),
                         static_cast<std::int32_t>(group.product), params->tiles_m};
    const std::int64_t rows = group.end - group.begin;
    params->tiles_m += static_cast<std::uint32_t>((rows + tile_rows - 1) / tile_rows);
  }
  return params->count;
}

// Planes of B and the bias reach to their last product's.
inline std::vector<ptx::DeviceBuffer> BuffersOfGroups(const Problem& problem,
                                                      const PackedGroups& groups,
                                                      const QuantGroupParams& params,
                                                      const Arguments& arguments) {
  std::int64_t last = 0;
  for (const PackedGroup& group : groups.groups) last = std::max(last, group.product);
  std::vector<ptx::DeviceBuffer> buffers = Buffers(problem, arguments);
  const auto extend = [&](const void* plane, std::int64_t step) {
    for (ptx::DeviceBuffer& buffer : buffers) {
      if (plane != nullptr && buffer.data == plane) {
        buffer.bytes += static_cast<std::uint64_t>(last * step);
      }
    }
  };
  extend(params.codes, params.code_step);
  extend(params.scales, params.scale_step);
  extend(params.shifts, params.shift_step);
  extend(params.bias, params.bias_step);
  return buffers;
}

template <int kTiling, class Decoder>
absl::Status LaunchFewGroupsOf(const Problem& problem, PackedGroups groups,
                               const Arguments& arguments, const LaunchTarget& target) {
  using Layout = FewLayout<kTiling, Decoder>;
  const absl::StatusOr<QuantParams> all = MakeParams(
      problem, arguments,
      RowSpec(problem, arguments.a, Decoder::Rows::kElement, Layout::kBoxRows, Layout::kTurnSlabs));
  if (!all.ok()) return all.status();
  QuantGroupParams params = {};
  static_cast<QuantParams&>(params) = *all;
  params.trigger = 0;  // there are several waves
  while (!groups.groups.empty()) {
    const std::size_t count = SetGroups(problem, groups, Layout::kBoxRows, &params);
    ptx::LaunchShape shape;
    shape.kernel = "hopper/quant groups of few";
    shape.blocks_x =
        static_cast<std::uint32_t>((problem.n + Layout::kBlockLines - 1) / Layout::kBlockLines);
    shape.blocks_y = params.count;
    shape.threads = Layout::kThreads;
    shape.shared_bytes = Layout::kSharedBytes;
    shape.overlaps_preceding = true;
    absl::Status status = ptx::Launch(FewGroups<kTiling, Decoder>, shape, params,
                                      BuffersOfGroups(problem, groups, params, arguments), target);
    if (!status.ok()) return status;
    groups.groups.remove_prefix(count);
  }
  return absl::OkStatus();
}

template <int kTiling, class Decoder>
absl::Status LaunchWideGroupsOf(const Problem& problem, PackedGroups groups,
                                const Arguments& arguments, const LaunchTarget& target) {
  const absl::StatusOr<QuantParams> all = MakeWideParams<kTiling, Decoder>(problem, arguments);
  if (!all.ok()) return all.status();
  QuantGroupParams params = {};
  static_cast<QuantParams&>(params) = *all;
  while (!groups.groups.empty()) {
    const std::size_t count =
        SetGroups(problem, groups, WideLayout<kTiling, Decoder>::kRows, &params);
    // Without a second row of tiles weights are read once.
    params.weight_policy =
        params.tiles_m == params.count ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kNormal;
    absl::Status status = LaunchTiles<kTiling, Decoder>(
        params, BuffersOfGroups(problem, groups, params, arguments), target);
    if (!status.ok()) return status;
    groups.groups.remove_prefix(count);
  }
  return absl::OkStatus();
}

// Groups in a tiling of kGroupRows.
// REQUIRES: what Rejection() of the family says; of few rows, groups have no more than the tiling;
// of many, the tiling's blocks divide the packed lines, and B has no offsets.
template <int kTiling, CodeFormat kFormat>
absl::Status LaunchGroupsOf(const Problem& problem, const PackedGroups& groups,
                            const Arguments& arguments, const LaunchTarget& target) {
  return WithDecoder<kFormat>(problem, [&](auto decoder) {
    using Decoder = typename decltype(decoder)::Type;
    constexpr int kRows = kGroupRows[kTiling];
    if constexpr (kTiling < kFewGroupTilings) {
      return LaunchFewGroupsOf<FewTilingOfGroups(kFormat, kRows), Decoder>(problem, groups,
                                                                           arguments, target);
    } else {
      return LaunchWideGroupsOf<WideTilingOfGroups(kFormat, kRows), Decoder>(problem, groups,
                                                                             arguments, target);
    }
  });
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
