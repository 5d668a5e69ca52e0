// GEMM on the CPU through OpenBLAS, with bits that do not depend on M.
//
// OpenBLAS computes a row differently for different M (its kernels differ for
// small M). So D is computed in units of 64 rows by 512 columns, each one
// single-threaded OpenBLAS call over the whole of K; a last panel with fewer rows
// is padded with zero rows. The shape of a call then depends on N and K alone, and
// so do its bits, however many cores work on the units.
//
// Arithmetic by operand type:
//   f64, f32    in their own precision
//   f16, bf16   widened to f32 exactly, accumulated in f32, rounded once at the end
//   int8        exact: f32 products of 1024 terms are integers up to 2^24, which
//               f32 holds exactly; their sum is kept in int32. K is at most 131,071,
//               the largest for which K * 128 * 128 fits an int32.
// The epilogue is computed in f64 for f64 and int8, in f32 for the others. The int32
// output of int8 takes no epilogue: it is the exact integer product.
//
// Error, f32 accumulation: |D - exact| <= (K + 4) * 2^-24 * (|alpha| |A| |B| + |beta C|
// + |bias|) elementwise, activation aside (Higham, "Accuracy and Stability of
// Numerical Algorithms", 2nd ed., section 3.5, any order of summation), plus half a
// unit in the last place of the output type; f64 alike with 2^-53.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

inline constexpr std::int64_t kPanelRows = 64;
inline constexpr std::int64_t kPanelColumns = 512;
inline constexpr std::int64_t kMaxInt8K = 131071;

// cpu/panel_f64, cpu/panel_f32, cpu/panel_f16, cpu/panel_bf16, cpu/panel_int8.
void AppendCpuKernels(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
