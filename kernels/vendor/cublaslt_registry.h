// Registry entries of cuBLASLt, opened at run time (cublaslt_library.h):
// cublaslt/f64, f32, tf32, f16, bf16, int8, fp8_promoted, fp8_fast.
//
// They run on CUDA devices, fp8 from sm_89. Every leading dimension is a multiple of 16
// bytes. int8 and fp8 operands are K-major and M, N and K multiples of 16, as their tensor
// core kernels want; the device pads and transposes on landing. cuBLASLt takes tf32
// operands in any order, so these entries do too. fp8_e4m3 multiplies with itself and with
// fp8_e5m2. fp8_fast is chosen only by name.
//
// Output: f16 and bf16 operands write f32, f16 or bf16; int8 writes the exact int32 product
// or, through scales, alpha, beta and so on, f32, f16 or bf16; fp8 writes f32, f16 or bf16;
// the others write their own type. What cuBLASLt fuses is fused; for the rest it writes
// the bare product into the workspace, and kernels/epilogue follows in the same stream.
//
// Class fast: cuBLASLt chooses tiles and splits of K by M, so a row's bits may change with
// M. (int8 to int32 is exact all the same, and its numerics id says so.) Error, by the type
// that accumulates: (K + 4) * u * (|alpha| |A| |B| + |beta C| + |bias|) with u = 2^-53 for
// f64, 2^-24 for f32 and for f16, bf16 and fp8_promoted operands; tf32 operands are first
// rounded to 11 bits, f16 sums have u = 2^-11, and fp8_fast u = 2^-13. Half a unit in the
// last place of the output is added to each.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/vendor/matmul_engine.h"

namespace gemmd {

// The engine outlives the kernels.
void AppendCublasLt(const vendor::MatmulEngine* engine,
                    std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
