// Registry entries of the Hopper GEMM of lines that start anywhere: sm90/ragged256x128 and, for
// products of few tiles, sm90/ragged64x64.
//
// Each takes f16 or bf16 operands, K-major, with lines of any pitch, and writes plain products in
// the operands' type, row-major. Arithmetic and error are those of the aligned tilings
// (half/wgmma_gemm_registry.h), whose numerics id they share. A, or both operands, are copied to a
// workspace where their lines are not aligned.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperRaggedGemm(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
