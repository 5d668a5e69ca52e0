// wgmma on operands of 8 bits; wgmma.h has the fence, the commit and the wait.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

enum class ByteFormat : std::uint8_t { kE4m3, kE5m2, kS8, kU8 };

// d[64 x columns] (+)= a * b, 32 elements of K deep. `a` and `b` are descriptors of K-major
// operands in shared memory. REQUIRES: both formats are floats, or both integers.
struct WgmmaByteProduct {
  ByteFormat a_format;
  ByteFormat b_format;
  std::uint32_t columns;
  bool accumulate;
  std::uint64_t a;
  std::uint64_t b;
};

// `registers` is this thread's accumulators, columns / 2 of them: f32 of floats, int32 of integers.
void WgmmaBytes(const WgmmaByteProduct& product, float* registers, const CallSite& site);
void WgmmaBytes(const WgmmaByteProduct& product, std::int32_t* registers, const CallSite& site);

}  // namespace gemmd::emulator
