// GEMM on the CPU for every quantized format, in one operand or in both, with bits that do not
// depend on M nor on a row's place among others.
//
// They take what cpu/panel_* do not: elements of fewer bits, uint8, blocks of scales, zero points,
// and quantized operands beside f32, f16 or bf16 ones. base/numbers/quant/README.md says what each
// operand is worth, and tests/testing/products/exact_product.h what its product is.
//
//   cpu/quantized_int  both operands of integers; accumulate is int32, D f32, f16 or bf16. Sums of
//                      codes less zero points are exact in pieces of K of at most 256 in which no
//                      scale changes; pieces are scaled and summed in f64.
//   cpu/quantized_f32  any others, or accumulate f32: both decoded to f32 and summed as
//                      row_gemm.h does it.
//   cpu/quantized_f64  accumulate f64: likewise in f64, and D may be f64.
//
// A is decoded by the rows of a unit of D, B as it is multiplied, from where it lies: it takes no
// memory, and as long as its codes take to read and decode.
//
// The epilogue is computed in f64. Error, with u = 2^-53 and P pieces for quantized_int, u = 2^-24
// and P = RowGemmRoundings(K) for quantized_f32, u = 2^-53 and that of f64 for quantized_f64,
// elementwise, activation aside:
//
//     |D - exact| <= (P + 8) u (|alpha| |A| |B| + |beta C| + |bias|) + K 2^-132 |alpha| s
//
// plus half a unit in the last place of D's type. The second term, of quantized_f32 alone, is of
// values that vanish beside their line's largest scale: s is the product of the largest scales (or
// offsets) of the row and of the column, and of the largest element where an operand has no scales.
// Decoded values are exact in f64, and in f32 where code and scale have 24 bits together, as in the
// MX formats; else decoding adds one rounding each, and in f64 too where there are offsets. Scales
// are divided by their line's power of two first, so that no value of a quantized operand
// overflows.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendQuantizedCpuKernels(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
