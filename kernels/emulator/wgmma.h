// wgmma: a warpgroup's asynchronous matrix products. PTX ISA, "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include <cstdint>

#include "kernels/emulator/call_site.h"
#include "kernels/emulator/tensor_core.h"

namespace gemmd::emulator {

// Accumulators are in flight from here to the wait; until then they read as NaN.
void WgmmaFence(const CallSite& site);

// d[64 x columns] (+)= a * b, 16 products deep, K-major operands in shared memory by
// descriptor. `registers` is this thread's columns / 2 accumulators.
void WgmmaMultiply(HalfFormat format, float* registers, std::uint32_t columns,
                   std::uint64_t a_descriptor, std::uint64_t b_descriptor, bool accumulate,
                   const CallSite& site);
void WgmmaCommit(const CallSite& site);
void WgmmaWait(std::uint32_t pending, const CallSite& site);

}  // namespace gemmd::emulator
