// Registry entries of the Hopper GEMM on tf32 operands: sm90/tf32_coop128x256c2 and others, one for
// each tiling that writes f32 (tilings.h).
//
// Each takes tf32 operands with neighbours along K, accumulates in f32 and writes f32 with any
// epilogue, leading dimensions at multiples of 16 bytes. They run on sm_90a and on emulated
// devices.
//
// Arithmetic: TMA rounds operands to tf32's 11 bits, to nearest even, each by up to 2^-11 of the
// element; then wgmma m64nNk8 over K in order, whatever the tiling, so that a row's bits depend on
// N, K and epilogue alone and are the same for every entry. An instruction truncates 9 terms at
// 2^-25 of the largest and its sum at 2^-24. So for plain products without overflow, elementwise,
//   |D - exact| <= (2^-10 + 2^-22 + (K / 8 + 1) * 10 * 2^-24) * (|A| |B|).
// Infinities and NaN count as IEEE has them; numbers above the largest of tf32 by half a unit are
// infinite; subnormal ones are rounded at tf32's last place.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperTf32(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
