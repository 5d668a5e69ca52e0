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
  const PackedPlaces places = PlacesOf(problem);
  const VectorElements elements = ElementsOf(places, plane);
  const PackingParams params = {sent, packed, places, elements};
  const bool are_codes = plane == WeightPlane::kCodes;
  // From the panel's first scale to its last.
  const std::int64_t line_blocks = (places.n + places.scale_lines - 1) / places.scale_lines;
  const std::int64_t sent_elements = (line_blocks - 1) * places.scale_line_stride +
                                     (places.scale_blocks - 1) * places.scale_block_stride + 1;
  const std::uint64_t sent_bytes = are_codes
                                       ? problem.b.size_bytes()
                                       : static_cast<std::uint64_t>(sent_elements * elements.size);
  const std::int64_t threads =
      are_codes ? places.units * 32 : places.scale_units * kStripLines * elements.count;
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
  if (!are_codes) {
    return elements.size == 1   ? launch(PackVector<std::uint8_t>)
           : elements.size == 2 ? launch(PackVector<std::uint16_t>)
                                : launch(PackVector<std::uint32_t>);
  }
  switch (CodeOf(places.format)) {
    case Code::kInt4:
      return launch(PackCodes<Code::kInt4>);
    case Code::kTable:
      return launch(PackCodes<Code::kTable>);
    case Code::kE2m1:
      return launch(PackCodes<Code::kE2m1>);
    case Code::kInt8:
      return launch(PackCodes<Code::kInt8>);
    case Code::kE4m3:
      return launch(PackCodes<Code::kE4m3>);
    case Code::kE5m2:
      return launch(PackCodes<Code::kE5m2>);
    case Code::kE3m2:
      return launch(PackCodes<Code::kE3m2>);
    case Code::kE2m3:
      break;
  }
  return launch(PackCodes<Code::kE2m3>);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
