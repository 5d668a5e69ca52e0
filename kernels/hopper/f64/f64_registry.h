// The registry entry of the f64 product on tensor cores: sm90/f64.
//
// Takes f64 operands, row-major or column-major, transposed or not, of any leading dimension, and
// writes f64 with any epilogue. Runs on sm_90a and on emulated devices. Its config is one of
// kTilings; bits depend on the row, the column and K alone, whatever the tiling, and are those of
// kernels/cpu, but that a sum of zeros is always +0.
//
// Error. An element of D is one chain of K fused multiply-adds, each of which rounds once. With
// u = 2^-53 a product passes through at most K of these roundings, so that for plain products
// |D - exact| <= g(K) (|A| |B|) elementwise, with g(K) = K u / (1 - K u), as long as nothing
// overflows or underflows. An addition that is subnormal is exact; a product that is rounds with
// the sum that it is added to, once, so that underflow adds at most K * 2^-1075.
// An epilogue rounds each of its operations: alpha times the sum, beta times C, either addition,
// and those of the activation: to the bound times |alpha| come 2 u (|alpha sum| + |beta C|) + u of
// the value with the bias, to first order.
//
// Infinities and NaN appear where a chain of IEEE operations has them; which NaN is not said.
// Subnormal operands and results keep every bit.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperF64(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
