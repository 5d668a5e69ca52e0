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
  // From the panel's first scale to its last.
  const std::int64_t line_blocks = (places.n + places.scale_lines - 1) / places.scale_lines;
  const std::int64_t sent_scales = (line_blocks - 1) * places.scale_line_stride +
                                   (places.scale_blocks - 1) * places.scale_block_stride + 1;
  auto sent_bytes = static_cast<std::uint64_t>(sent_scales);
  std::int64_t threads = places.scale_units * kStripLines;
  if (plane == WeightPlane::kCodes) {
    sent_bytes = problem.b.size_bytes();
    threads = places.units * 32;
  } else if (plane == WeightPlane::kScales) {
    sent_bytes *= static_cast<std::uint64_t>(ScaleSize(places.format));
    threads *= ScalesOf(places.format);
  }
  constexpr std::uint32_t kBlocksPerMultiprocessor = 8;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant packing";
  shape.blocks_x = static_cast<std::uint32_t>(
      std::min((threads + kPackingThreads - 1) / kPackingThreads,
               std::int64_t{kBlocksPerMultiprocessor} * ptx::Multiprocessors()));
  shape.threads = kPackingThreads;
  const auto units = static_cast<std::uint64_t>(UnitsOf(problem, plane, problem.n));
  const auto piece = static_cast<std::uint64_t>(PieceBytes(places.format, plane));
  const std::vector<ptx::DeviceBuffer> buffers = {{sent, sent_bytes, "sent"},
                                                  {packed, units * piece, "packed", false}};
  const auto launch = [&](auto* kernel) {
    return ptx::Launch(kernel, shape, params, buffers, target);
  };
  if (plane == WeightPlane::kZeroPoints) return launch(PackZeroPoints);
  const bool are_codes = plane == WeightPlane::kCodes;
  switch (places.format) {
    case CodeFormat::kInt4:
      return launch(are_codes ? PackCodes<CodeFormat::kInt4> : PackScales<std::uint16_t, 1>);
    case CodeFormat::kMxfp4:
      return launch(are_codes ? PackCodes<CodeFormat::kMxfp4>
                              : PackScales<std::uint8_t, ScalesOf(CodeFormat::kMxfp4)>);
    case CodeFormat::kNvfp4:
      return launch(are_codes ? PackCodes<CodeFormat::kMxfp4>
                              : PackScales<std::uint8_t, ScalesOf(CodeFormat::kNvfp4)>);
    case CodeFormat::kInt8:
      return launch(are_codes ? PackCodes<CodeFormat::kInt8> : PackScales<std::uint32_t, 1>);
    case CodeFormat::kE4m3:
      break;
  }
  return launch(are_codes ? PackCodes<CodeFormat::kE4m3> : PackScales<std::uint32_t, 1>);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
