// Matrix descriptors: how wgmma finds an operand in shared memory.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: Matrix Descriptor Format" and
// "Shared Memory Matrix Layout".
#pragma once

#include "kernels/ptx/platform.h"
#include "kernels/ptx/swizzle.h"

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// The elements of an operand that lie side by side: those of one row of M or N (K-major), or those
// of one k (MN-major, the transposed form, for 16-bit elements alone).
enum class Major : int { kK = 0, kMn = 1 };

// Makes a descriptor. Leading and stride mean the following, where a chunk is 16 bytes, 8 elements,
// and a span is the swizzle's 32, 64 or 128 bytes. "Dense" is the layout that a TMA box with that
// swizzle leaves.
//
// K-major: rows of M or N with elements of K side by side; eight rows form a group.
//   swizzled  rows of a group lie one span apart, groups `stride_bytes` apart (8 spans where
//             dense); `leading_bytes` is not used. The group starts at a multiple of 8 spans;
//             the address may advance inside the first row to step along K.
//   none      a group is 8 rows of one chunk; groups lie `stride_bytes` apart, the next
//             chunk of K `leading_bytes` away.
// MN-major: lines of K with elements of M or N side by side; eight lines form a group.
//   swizzled  lines of a group lie one span apart, groups of k `stride_bytes` apart (8 spans
//             where dense); the next span of M or N lies `leading_bytes` away. The group
//             starts at a multiple of 8 spans.
//   none      a group is 8 lines of one chunk; groups of k lie `leading_bytes` apart, the
//             next chunk of M or N `stride_bytes` away.
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

// The usual one: a dense K-major tile with rows of 128 bytes.
GEMMD_DEVICE std::uint64_t MakeWgmmaDescriptor128B(SharedAddress address) {
  return MakeWgmmaDescriptor(address, 16, 1024, Swizzle::k128B);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
