// The registry entry of the f32 product on bf16 tensor cores: sm90/f32_bf16x6.
//
// Takes f32 operands, row-major or column-major, transposed or not, B's lines at multiples of 16
// bytes, and writes f32 with any epilogue. Runs on sm_90a and on emulated devices. Its config is
// one of kTilings; bits depend on the row, B, N and K alone, whatever the tiling.
//
// Error, for plain products: |D - exact| <= 41 * 2^-24 * (|A| |B|) elementwise for K up to 2^20,
// whatever K is below that, where SGEMM's bound is K * 2^-24. Measured it is below SGEMM's, largest
// and RMS (docs/numerics.md). With u = 2^-24 and S = |A| |B| of the element:
//   Dropped products. |mid| <= 2^-8 |x| and |lo| <= 2^-17 |x|, so mid lo, lo mid and lo lo are at
//   most (2 * 2^-25 + 2^-34) |a b|: 1.001 u S.
//   Truncation. An instruction errs by at most 18 u times the magnitudes it adds
//   (half/wgmma_gemm_registry.h). In 32 of K two instructions add hi hi, four of 2^-8 of that
//   and six of 2^-16; the rest that they begin with is below u times the sum so far. Over all K:
//   36 (1 + 2^-5) u S, and 12 * 18 u^2 S for each of K / 32 blocks: 0.5 u S.
//   Sums. A compensated sum errs by at most 2 u times the sum of its terms' magnitudes, and by
//   terms of u^2 for each block: 2.1 u S. The last addition rounds once more, u S.
// The factor 2^-48 at the end (parts.h) is exact but for subnormal results, which it rounds once.
//
// Infinities, NaN, elements from 2^103 on and sums from 2^80 on: such an element of D is summed
// anew in f64 and rounded, so that infinities and NaN appear where SGEMM has them. A sum that SGEMM
// overflows on its way to a finite value is finite here. Zeros are +0 as in a sum that begins
// with +0; subnormal operands and results keep every bit that f32 has for them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperF32(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
