// Matrix descriptors: how wgmma finds an operand in shared memory.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor Format".
#pragma once

#include "kernels/ptx/platform.h"
#include "kernels/ptx/swizzle.h"

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// For a K-major operand: rows of M or N, with elements of K side by side. Eight rows form
// a group. Swizzled, the rows of a group lie one span apart, groups lie
// `stride_bytes` apart (8 spans where they are dense), and `leading_bytes` is not used;
// the group starts at a multiple of 8 spans, and the address may advance inside the first
// row to step along K. Without swizzling, a group is 8 rows of 16 bytes, and the next 16
// bytes of K lie `leading_bytes` away.
//
// Bits: start address / 16 in 0-13, leading / 16 in 16-29, stride / 16 in 32-45, base
// offset (0) in 49-51, layout in 62-63: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes.
GEMMD_DEVICE std::uint64_t MakeWgmmaDescriptor(SharedAddress address, std::uint32_t leading_bytes,
                                               std::uint32_t stride_bytes, Swizzle swizzle) {
  const std::uint64_t layout = swizzle == Swizzle::k128B  ? 1
                               : swizzle == Swizzle::k64B ? 2
                               : swizzle == Swizzle::k32B ? 3
                                                          : 0;
  return ((address & 0x3ffff) >> 4) | (std::uint64_t{leading_bytes >> 4} << 16) |
         (std::uint64_t{stride_bytes >> 4} << 32) | (layout << 62);
}

// The usual one: a dense tile with rows of 128 bytes.
GEMMD_DEVICE std::uint64_t MakeWgmmaDescriptor128B(SharedAddress address) {
  return MakeWgmmaDescriptor(address, 16, 1024, Swizzle::k128B);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
