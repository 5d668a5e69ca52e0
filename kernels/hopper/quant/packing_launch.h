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
  const std::int64_t lines = problem.b_scale_lines == 0 ? problem.n : problem.b_scale_lines;
  const auto scales = static_cast<std::uint64_t>(lines * params.places.groups);
  const bool is_codes = plane == WeightPlane::kCodes;
  const std::uint64_t sent_bytes = is_codes                        ? problem.b.size_bytes()
                                   : plane == WeightPlane::kScales ? scales * 2
                                                                   : scales;
  const std::int64_t work = params.places.units * (is_codes ? 32 : kStripLines);  // threads
  constexpr std::uint32_t kBlocksPerMultiprocessor = 8;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant packing";
  shape.blocks_x = static_cast<std::uint32_t>(
      std::min((work + kPackingThreads - 1) / kPackingThreads,
               std::int64_t{kBlocksPerMultiprocessor} * ptx::Multiprocessors()));
  shape.threads = kPackingThreads;
  const auto units = static_cast<std::uint64_t>(params.places.units);
  const std::uint64_t piece = is_codes                        ? kCodeBytes
                              : plane == WeightPlane::kScales ? kScaleBytes
                                                              : kZeroBytes;
  const std::vector<ptx::DeviceBuffer> buffers = {{sent, sent_bytes, "sent"},
                                                  {packed, units * piece, "packed", false}};
  switch (plane) {
    case WeightPlane::kCodes:
      return ptx::Launch(PackCodes, shape, params, buffers, target);
    case WeightPlane::kScales:
      return ptx::Launch(PackVector<std::uint16_t>, shape, params, buffers, target);
    case WeightPlane::kZeroPoints:
      break;
  }
  return ptx::Launch(PackVector<std::uint8_t>, shape, params, buffers, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
