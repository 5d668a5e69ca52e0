// Element types of a 16-bit GEMM on mma.sync: operands, accumulator, output.
#pragma once

#include "kernels/ptx/convert.h"
#include "kernels/ptx/mma_sync.h"
#include "kernels/ptx/platform.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// Each policy has
//   Accumulator           the registers of one 16x8 tile of D, zero to begin with
//   MultiplyAdd(d, a, b)  d += a * b, 16x8 += 16x16 * 16x8
//   Output(d, half)       elements 2 * half and the next one as a packed output word:
//                         row g + 8 * half, columns 2 * t and 2 * t + 1 (mma_sync.h)
struct F16AccumulateF32 {
  struct Accumulator {
    float element[4] = {0, 0, 0, 0};
  };
  static GEMMD_DEVICE void MultiplyAdd(Accumulator& d, const std::uint32_t (&a)[4],
                                       const std::uint32_t (&b)[2]) {
    ptx::MmaF16(d.element, a, b);
  }
  static GEMMD_DEVICE std::uint32_t Output(const Accumulator& d, int half) {
    return ptx::PackF16(d.element[2 * half], d.element[2 * half + 1]);
  }
};

struct F16AccumulateF16 {
  struct Accumulator {
    std::uint32_t pair[2] = {0, 0};
  };
  static GEMMD_DEVICE void MultiplyAdd(Accumulator& d, const std::uint32_t (&a)[4],
                                       const std::uint32_t (&b)[2]) {
    ptx::MmaF16AccumulateF16(d.pair, a, b);
  }
  static GEMMD_DEVICE std::uint32_t Output(const Accumulator& d, int half) { return d.pair[half]; }
};

struct Bf16AccumulateF32 {
  struct Accumulator {
    float element[4] = {0, 0, 0, 0};
  };
  static GEMMD_DEVICE void MultiplyAdd(Accumulator& d, const std::uint32_t (&a)[4],
                                       const std::uint32_t (&b)[2]) {
    ptx::MmaBf16(d.element, a, b);
  }
  static GEMMD_DEVICE std::uint32_t Output(const Accumulator& d, int half) {
    return ptx::PackBf16(d.element[2 * half], d.element[2 * half + 1]);
  }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
