// Swizzling modes of shared memory. PTX ISA, "Tensors: swizzling modes".
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/memory/tensor_map.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// 16-byte chunk c of 128-byte line r lies at chunk c XOR (r % 8) with k128B; with k64B
// and k32B fewer bits take part. The value is the longest row of a box, in bytes.
#ifdef __CUDACC__
enum class Swizzle : std::uint32_t { kNone = 0, k32B = 32, k64B = 64, k128B = 128 };
#else
using emulator::Swizzle;
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
