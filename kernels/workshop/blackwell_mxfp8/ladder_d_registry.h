// Registry entries of ladder D: sm100/d0 to d12, and d11's forms for e2m1, sm100/d11_mxfp4 and
// sm100/d11_nvfp4.
//
// d0 to d12 take MXFP8: A and B of fp8_e4m3 or fp8_e5m2, in any combination, with E8M0 scales of 32
// of K in tiles of 128 x 4 (base/numbers/scaling.h), both K-major with 16-byte strides and no
// epilogue, and write f32. Any M, N and K. They run on CUDA devices of compute capability 10.0, for
// which they are built, and on emulated devices. No Blackwell card has run them: emulated,
// compiled, not run.
//
// D may be a view: no kernel writes beyond its columns. d9 to d12 store by TMA only where N and D's
// leading dimension are multiples of 4 and D starts at a multiple of 16 bytes; else by threads, to
// the same bits.
//
// Arithmetic: tcgen05.mma over K in order, 32 at a time: products and scales exact, all aligned to
// the largest exponent among the sum so far and the products' and truncated to 25 bits, their sum
// truncated to f32 (tensor_core.h says by what source; the bits of a card are unknown).
// With K / 32 rounded up to P an element's error is at most P * (33 * 2^-25 + 2^-23) of the largest
// partial sum or product, where a subnormal factor counts as the smallest normal one. All steps
// give the same bits, whatever M and N are.
//
// d11_mxfp4 takes fp4_e2m1 with E8M0 scales of 32 of K, d11_nvfp4 with fp8_e4m3 scales of 16 of K
// and an f32 of each operand (base/numbers/quant/README.md), in such tiles; both an even K on lines
// of whole 16 bytes, and else what d11 takes. Sums are over 64 of K at a time, by the rule of
// fp4_block.h, and at last of nvfp4 multiplied by A's and by B's f32. With K / 64 rounded
// up to P, S the largest partial sum and L the larger one of S and of the largest product of two
// scales, each rounded down to a power of two, an element's error is at most
// P * (5 * 2^-35 * L + 2^-23 * S), and of nvfp4 2^-23 of the element more.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendLadderD(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
