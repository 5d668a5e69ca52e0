// The registry entry of the f32 product in three f16 products: sm90/f32_f16x3.
//
// Takes f32 operands in any layout, writes f32 with any epilogue. Runs on sm_90a and on emulated
// devices. Its config is one of kTilings; bits depend on the row, B, N and K alone, whatever the
// tiling. Only a request that names it gets it, because its error is bounded by the largest
// elements of a row of A and of a column of B, not by the elements themselves.
//
// Error, for plain products and K up to 2^20, of an element of D, with u = 2^-24, S = |A| |B| of
// the element, a and b the largest magnitudes of its row of A and column of B:
//   |D - exact| <= 85 u S + 2^-38 K a b,
// the second term for elements below 2^-16 of their line's largest alone (parts.h):
//   Parts. |x - hi - lo| <= 2 u |x| + 2^-39 of the line's largest, of both factors: 4 u S and
//   2 * 2^-39 K a b.
//   Dropped products. |lo| <= 2^-11 |x| but for what the second term has: 4 u S.
//   Truncation. An instruction errs by at most 18 u times the magnitudes it adds
//   (half/wgmma_gemm_registry.h). In 64 of K four instructions add hi hi and eight 2^-11 of that:
//   72 u S (1 + 2^-9). The rest that they begin with is below u times the sum so far, and adds
//   12 * 18 u^2 S for each of K / 64 blocks: 0.3 u S.
//   Sums. As in f32/f32_registry.h: 3.1 u S.
// The powers of two are exact but for subnormal results, which are rounded once.
//
// Infinities, NaN and sums past the largest f32: such an element of D is summed anew in f64 and
// rounded, so that infinities and NaN appear where SGEMM has them. Zeros are +0 as in a sum that
// begins with +0; a line of zeros, or of subnormal numbers, is as good as any other.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperF16x3(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
