// Registry entries of products of 8-bit operands on Hopper: sm90/int8_coop128x256c2,
// sm90/fp8_coop128x256c2 and others, one of each for every tiling (tilings.h).
//
// They take K-major operands whose lines start at multiples of 16 bytes, and write any epilogue.
// They run on sm_90a and on emulated devices, in class batch_invariant: the bits of a row depend on
// the row, B, N and K alone.
//
// docs/numerics.md has arithmetic and bounds. In short:
//
// int8: the exact product in int32, or that times scales of lines as f32, f16 or bf16: the sum is
// rounded to f32, multiplied by A's scale, then by B's, each rounded.
//
// fp8, E4M3 and E5M2 in any pair, with scales of lines or with f32 ones of blocks of 1x128 and
// 128x128: each 128 of K is summed by the tensor cores, 32 at a time, which keep 13 fraction bits;
// total = fma(sum, scale of A * scale of B, total) in f32, a block after another in ascending K.
// Scales of lines multiply the total, A's first.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperBytes(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
