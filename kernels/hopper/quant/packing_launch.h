// Host code of packing, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/hopper/quant/packing_kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// REQUIRES: what PackPlane() does.
inline absl::Status LaunchPacking(const Problem& problem, WeightPlane plane, const void* sent,
                                  void* packed, const LaunchTarget& target) {
  const PackingParams params = {sent, packed, PlacesOf(problem)};
  const PackedPlaces& places = params.places;
  const bool is_e2m1 = places.format == CodeFormat::kE2m1;
  const auto piece = static_cast<std::uint64_t>(PieceBytes(places.format, plane));
  const std::int64_t lines = problem.b_scale_lines == 0 ? problem.n : problem.b_scale_lines;
  const auto blocks = static_cast<std::uint64_t>(lines * places.scale_blocks);
  std::uint64_t sent_bytes = blocks;
  std::int64_t unit_threads = kStripLines;
  if (plane == WeightPlane::kCodes) {
    sent_bytes = problem.b.size_bytes();
    unit_threads = 32;
  } else if (plane == WeightPlane::kScales) {
    sent_bytes = blocks * static_cast<std::uint64_t>(ScaleSize(places.format));
    unit_threads *= ScalesOf(places.format);
  }
  const std::int64_t threads = places.units * unit_threads;
  constexpr std::uint32_t kBlocksPerMultiprocessor = 8;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant packing";
  shape.blocks_x = static_cast<std::uint32_t>(
      std::min((threads + kPackingThreads - 1) / kPackingThreads,
               std::int64_t{kBlocksPerMultiprocessor} * ptx::Multiprocessors()));
  shape.threads = kPackingThreads;
  const auto units = static_cast<std::uint64_t>(places.units);
  const std::vector<ptx::DeviceBuffer> buffers = {{sent, sent_bytes, "sent"},
                                                  {packed, units * piece, "packed", false}};
  const auto launch = [&](auto* kernel) {
    return ptx::Launch(kernel, shape, params, buffers, target);
  };
  switch (plane) {
    case WeightPlane::kCodes:
      return launch(is_e2m1 ? PackCodes<CodeFormat::kE2m1> : PackCodes<CodeFormat::kInteger>);
    case WeightPlane::kScales:
      return launch(is_e2m1 ? PackScales<std::uint8_t, ScalesOf(CodeFormat::kE2m1)>
                            : PackScales<std::uint16_t, ScalesOf(CodeFormat::kInteger)>);
    case WeightPlane::kZeroPoints:
      break;
  }
  return launch(PackZeroPoints);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
