// The landing of quantized weights: planes as they were sent become the stream of landed.h, once.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/hopper/quant/landed.h"
#include "kernels/kernel.h"

namespace gemmd::hopper::quant {

// B's planes in the device's memory, of a problem whose B the kernels here take: int4 or uint4 with
// f16 scales of 128 along K for each line, along K or along lines, and zero points or none.
struct WeightPlanes {
  const void* codes = nullptr;
  const void* scales = nullptr;
  const void* zero_points = nullptr;
  void* landed = nullptr;  // LandedBytes(), at a multiple of 128
};

// Queues on target.stream, or runs to its end in *target.emulator. Thread-safe.
// INVALID_ARGUMENT: B is of another kind, or `landed` lies elsewhere; the message says how.
// UNIMPLEMENTED: target.stream without CUDA in this build. INTERNAL: the launch failed.
absl::Status LandWeights(const Problem& problem, const WeightPlanes& planes,
                         const LaunchTarget& target);

// Why the kernels here do not take such a B, in one line; empty if they do.
std::string WeightRejection(const Problem& problem);

}  // namespace gemmd::hopper::quant
