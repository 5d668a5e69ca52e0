// wgmma: a warpgroup's asynchronous matrix products. PTX ISA, "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include <cstdint>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

// d[64 x columns] (+)= a * b, 32 bytes of K deep: 16 products of halves, 8 of tf32. `a` and `b` are
// descriptors of operands in shared memory; the transpose bits say that they are MN-major, as
// halves may be. REQUIRES: kF16, kBf16 or kTf32.
struct WgmmaProduct {
  FactorFormat format;
  std::uint32_t columns;
  bool transpose_a;
  bool transpose_b;
  bool accumulate;
  std::uint64_t a;
  std::uint64_t b;
};

// Accumulators are in flight from the product to the wait; until then they read as NaN.
void WgmmaFence(const CallSite& site);

// `registers` is this thread's accumulators, columns / 2 of them. Where `fragments` is not null, it
// is this thread's four words of A, of halves, and product.a is not used.
//
// Checks that a fence stands between the last wait and the fragments, and that these are unchanged
// at the wait. Does not see a fragment that is first written after the fence.
void WgmmaMultiply(const WgmmaProduct& product, float* registers, const std::uint32_t* fragments,
                   const CallSite& site);
void WgmmaCommit(const CallSite& site);
void WgmmaWait(std::uint32_t pending, const CallSite& site);

}  // namespace gemmd::emulator
