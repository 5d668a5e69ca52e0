// GEMM on the CPU, with bits that do not depend on M nor on a row's place among others.
//
// D is computed in units over the whole of K, as many as keep all cores busy (units.h). Sums go
// through row_gemm.h, where an element's bits depend on its row and its column alone, but the exact
// ones of int8 in cpu/vnni_int8, which go through int8_rows.h where the processor has AVX-512 VNNI.
// Elements of B are widened as they are multiplied, wherever they lie.
//
// Arithmetic by operand type:
//   f64, f32    in their own precision
//   f16, bf16   widened to f32 exactly, accumulated in f32, rounded once at the end
//   int8        exact, in int32, either way: f32 products of 1024 terms are integers up
//               to 2^24, which f32 holds exactly. K is at most 131,071, the largest
//               for which K * 128 * 128 fits an int32.
//   fp8         E4M3 and E5M2 in any pairing, as f16: each product is exact in f32
// The epilogue is computed in f64 for f64, int8 and fp8, in f32 for the others. Scales of
// int8 and fp8 belong to it: alpha * a_scale * b_scale * sum, then as always. The int32
// output of int8 takes no epilogue and no scales: it is the exact integer product.
//
// Error, f32 accumulation: |D - exact| <= (R + 4) * 2^-24 * (|alpha| |A| |B| + |beta C|
// + |bias|) elementwise, activation aside, plus half a unit in the last place of the output
// type; f64 alike with 2^-53. R is RowGemmRoundings(K) of row_gemm.h: K up to 256, 128 where it is
// 4096. A and B are values, scales included. int8 has no error in its sum: D is the exact value
// but for f64's roundings of the epilogue, rounded to f32 and then to the output type.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

// The rows of a plan's tile: a product is cut into slices at its multiples, and fewer rows gain by
// company.
inline constexpr std::int64_t kPanelRows = 64;
inline constexpr std::int64_t kMaxInt8K = 131071;

// cpu/panel_f64, cpu/panel_f32, cpu/panel_f16, cpu/panel_bf16, cpu/vnni_int8, cpu/panel_int8,
// cpu/panel_fp8_e4m3, cpu/panel_fp8_e5m2, and the mixed cpu/panel_fp8_e4m3_e5m2 (A is E4M3)
// and cpu/panel_fp8_e5m2_e4m3.
void AppendCpuKernels(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
