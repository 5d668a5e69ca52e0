// The registry entry sm120/mx.
//
// It takes MXFP8: A and B of fp8_e4m3 or fp8_e5m2, in any combination, with E8M0 scales of 32 of K
// in tiles of 128 x 4 (base/numbers/scaling.h), both K-major with 16-byte strides and no epilogue,
// and writes f32. Any M, N and K; D may be a view. It runs on CUDA devices of compute
// capability 12.0, for which it is built, and on emulated devices. No card has run it: emulated,
// compiled, not run.
//
// Arithmetic: mma.sync over K in order, 32 at a time, by the rule that ladder D has too, with its
// error bound (kernels/workshop/blackwell_mxfp8/ladder_d_registry.h). Its numerics id is its own,
// since the two instructions have been compared on no card.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendSm120Mx(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
