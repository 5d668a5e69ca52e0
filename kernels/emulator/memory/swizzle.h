// The address permutation that TMA, wgmma and their readers share.
#pragma once

#include <cstdint>

#include "kernels/emulator/memory/tensor_map.h"

namespace gemmd::emulator {

// PTX ISA, "Tensors: swizzling modes": 16-byte chunks of each 128 bytes are permuted by
// XOR with address bits 7 and up; by 3, 2 or 1 of them for spans of 128, 64, 32 bytes.
inline std::uint32_t SwizzleAddress(std::uint32_t address, Swizzle swizzle) {
  const std::uint32_t span = static_cast<std::uint32_t>(swizzle);
  if (span == 0) return address;
  return address ^ ((address >> 3) & (span - 16));
}

// The permutation repeats after this many bytes: what a tile must be aligned to.
inline std::uint32_t SwizzlePeriod(Swizzle swizzle) {
  return swizzle == Swizzle::kNone ? 128 : 8 * static_cast<std::uint32_t>(swizzle);
}

}  // namespace gemmd::emulator
