// The terms of kernels whose warpgroups load and multiply: sizes that wgmma and the swizzle of 128
// bytes give, registers, and whose part a thread has.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

namespace gemmd::hopper {

inline constexpr int kWarpgroup = 128;  // threads
inline constexpr int kMaxSharedBytes = 232448;
inline constexpr int kSpanBytes = 128;                  // of a swizzled line
inline constexpr int kAtomBytes = 8 * kSpanBytes;       // after which swizzling repeats
inline constexpr int kRowBlockBytes = 64 * kSpanBytes;  // K-major rows of one product

// Registers a thread after setmaxnreg, where there are two consumers: what 3 * 168 at the
// launch bound of 384 threads leave. With one, 255 at launch are enough.
inline constexpr int kProducerRegisters = 24;
inline constexpr int kConsumerRegisters = 240;
static_assert(kProducerRegisters + 2 * kConsumerRegisters <= 3 * 168);

inline namespace GEMMD_BACKEND {

// The running consumer, and the place of the thread in it.
struct Consumer {
  std::uint32_t group;  // of the consumers
  std::uint32_t warp;   // of the group
  std::uint32_t lane;
};

// A descriptor whose address moves: one addition of 32 bits, where the field cannot overflow.
GEMMD_DEVICE std::uint64_t MoveDescriptor(std::uint64_t descriptor, std::uint32_t bytes) {
  return (descriptor & 0xffffffff00000000) | (static_cast<std::uint32_t>(descriptor) + bytes / 16);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
