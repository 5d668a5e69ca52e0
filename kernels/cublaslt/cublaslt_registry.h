// Registry entries of cuBLASLt, opened at run time (cublaslt_library.h):
// cublaslt/f64, f32, tf32, f16, bf16, int8, fp8_promoted, fp8_fast, fp8_blocks.
//
// They run on CUDA devices, fp8 from sm_89. Every leading dimension is a multiple of 16
// bytes. int8 and fp8 operands are K-major, and K and the extent that runs fastest in D are
// multiples of 16, as their tensor core kernels want; the device pads and transposes on
// landing. cuBLASLt takes tf32 operands in any order, so these entries do too. fp8_e4m3 multiplies
// with itself and with fp8_e5m2. fp8_fast is chosen only by name. fp8_blocks, of sm_90 alone, takes
// f32 scales of 1x128 blocks in both operands, or of 128x128 blocks in one of them
// (block_scales.h).
//
// Output: f16 and bf16 operands write f32, f16 or bf16; int8 writes the exact int32 product
// or, through scales, alpha, beta and so on, f32, f16 or bf16; fp8 writes f32, f16 or bf16;
// the others write their own type. cuBLASLt fuses the epilogues that it can; for the others it
// writes the bare product into the workspace, and kernels/epilogue follows in the same stream.
//
// Class fast: cuBLASLt chooses tiles and splits of K by M, so a row's bits may change with
// M. (int8 to int32 is exact all the same, and its numerics id says so.)
//
// Error, elementwise, of S = |alpha| |A| |B| + |beta C| + |bias| (scales included), measured
// on an H200 by //tests/kernels/cublaslt:cublaslt_on_gpu:
//   (K + 4) * u * S, u = 2^-53 for f64, 2^-24 for f32 and for f16 and bf16 operands, 2^-11
//   for f16 sums; tf32 adds 2^-9 * S, as its operands are cut to 11 bits; fp8 adds
//   2^-11 * S, as tensor cores keep 13 fraction bits of a sum, fp8_blocks 2^-9 * S; fp8_fast has
//   u = 2^-17;
//   half a unit in the last place of the output.
//   Where cuBLASLt fuses a bias or an activation behind f16 or bf16 output of the operands'
//   own type, some algorithms round to that type before it too: half a unit of S more.
//   Where it fuses gelu_tanh, its tanh adds up to 2^-17 * S.
// Parts of a split K are summed in the type that accumulates.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cublaslt/matmul_engine.h"
#include "kernels/kernel.h"

namespace gemmd {

// The engine outlives the kernels.
void AppendCublasLt(const cublaslt::MatmulEngine* engine,
                    std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
