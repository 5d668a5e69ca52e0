// Host code of the landing, compiled for the device and for the emulator.
#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "kernels/hopper/quant/landing.h"
#include "kernels/hopper/quant/landing_kernel.h"
#include "kernels/hopper/quant/zero_kind.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

template <ZeroKind kZero>
absl::Status LaunchLandingOf(const Problem& problem, const WeightPlanes& planes,
                             const LaunchTarget& target) {
  LandingParams params = {};
  params.codes = static_cast<const std::uint8_t*>(planes.codes);
  params.scales = static_cast<const std::uint16_t*>(planes.scales);
  params.zero_points = static_cast<const std::uint8_t*>(planes.zero_points);
  params.landed = static_cast<std::uint8_t*>(planes.landed);
  params.line_stride = problem.b_column_stride();
  params.k_stride = problem.b_inner_stride();
  params.n = problem.n;
  params.k = problem.k;
  params.groups = GroupsOf(problem.k);
  const std::int64_t lines = problem.b_scale_lines == 0 ? problem.n : problem.b_scale_lines;
  const bool is_along_k = problem.b_scaling.order == ScaleOrder::kAlongK;
  params.scale_line_stride = is_along_k ? params.groups : 1;
  params.scale_group_stride = is_along_k ? 1 : lines;
  params.units = ChunksOf(problem.n) * params.groups * kChunkStrips;
  params.bias = problem.b.type == DataType::kInt4 ? 8 : 0;
  params.pad_code = kZero == ZeroKind::kEight ? 8 : 0;
  constexpr std::uint32_t kBlocksPerMultiprocessor = 8;
  constexpr std::int64_t kWarps = kLandingThreads / 32;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant landing";
  shape.blocks_x = static_cast<std::uint32_t>(
      std::min((params.units + kWarps - 1) / kWarps,
               std::int64_t{kBlocksPerMultiprocessor} * ptx::Multiprocessors()));
  shape.threads = kLandingThreads;
  const auto places = static_cast<std::uint64_t>(lines * params.groups);
  std::vector<ptx::DeviceBuffer> buffers = {
      {planes.codes, problem.b.size_bytes(), "codes"},
      {planes.scales, places * 2, "scales"},
      {planes.landed, static_cast<std::uint64_t>(LandedBytes(kZero, problem.n, problem.k)),
       "landed", false}};
  if (kZero == ZeroKind::kPlane) buffers.push_back({planes.zero_points, places, "zero_points"});
  return ptx::Launch(LandUnits<kZero>, shape, params, buffers, target);
}

// REQUIRES: what LandWeights() checks.
inline absl::Status LaunchLanding(const Problem& problem, const WeightPlanes& planes,
                                  const LaunchTarget& target) {
  switch (ZeroKindOf(problem)) {
    case ZeroKind::kNone:
      return LaunchLandingOf<ZeroKind::kNone>(problem, planes, target);
    case ZeroKind::kEight:
      return LaunchLandingOf<ZeroKind::kEight>(problem, planes, target);
    default:
      return LaunchLandingOf<ZeroKind::kPlane>(problem, planes, target);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
