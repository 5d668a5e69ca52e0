// Registry entries of the Hopper GEMM, one a tiling (tilings.h): sm90/coop128x256c2 and others.
//
// Each takes f16 or bf16 operands, accumulates in f32 and writes the operands' type or f32.
// Operands are row-major or column-major, transposed or not, with strides of whole 16 bytes;
// which majors and whether an epilogue, the tiling says. They run on sm_90a and on emulated
// devices. D of which column major is asked is the transposed product's.
//
// Arithmetic: wgmma m64nNk16 over K in order, whatever the tiling, so that a row's bits depend
// on N, K, types and epilogue alone and are the same for every entry, and those of mma.sync. Error:
// each instruction truncates 17 terms at 2^-25 of the largest and its sum at 2^-24, so |D - exact|
// <= (K / 16 + 1) * 18 * 2^-24 * (|A| |B|) elementwise for plain products, plus half a unit in the
// last place of the output; an epilogue adds its own roundings in f32.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperGemm(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
