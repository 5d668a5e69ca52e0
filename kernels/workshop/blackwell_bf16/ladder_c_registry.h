// Registry entries of ladder C: sm100/c1, c2, c3, c4.
//
// Each takes f16 or bf16 operands, accumulated in f32, A row-major and not transposed, B K-major
// (n x k, as the ladder was published) or row-major (k x n), with 16-byte strides and no epilogue,
// and writes their own type. They run on CUDA devices of compute capability 10.0, for which they
// are built, and on emulated devices. No Blackwell card has run them: emulated, compiled, not run.
//
// D may be a view: no kernel writes beyond its columns.
//
// Arithmetic. c1: products rounded to f32 (exact but beyond its range) and added in order of K, one
// by one; an element's error is at most K * 2^-24 of the sum of its products' magnitudes, to first
// order, then D's rounding. c2 to c4: tcgen05.mma over K in order, 16 at a time, each aligned to
// the largest product and truncated to 25 bits, the sum truncated to f32 (tensor_core.h
// says by what source): at most (K / 16) * (17 * 2^-25 + 2^-23) of the largest partial sum or
// product, then D's rounding. The three give the same bits; they are not promised to be those of
// mma.sync and wgmma, whose rule was measured.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendLadderC(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
