// The two compilations of ladder B, as functions.
#pragma once

#include "kernels/mma/half_gemm_entry.h"

namespace gemmd::sm120 {

inline constexpr int kLadderBSteps = 5;  // in the order of ladder_b_steps.h

// Queues on target.stream. UNIMPLEMENTED: built without CUDA.
mma::HalfGemmLaunch CudaLadderB(int step);

// Runs in target.emulator.
mma::HalfGemmLaunch EmulatedLadderB(int step);

}  // namespace gemmd::sm120
