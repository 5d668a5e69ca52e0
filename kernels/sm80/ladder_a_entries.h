// The two compilations of ladder A, as functions.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::sm80 {

using LadderALaunch = absl::Status (*)(const Problem&, const Arguments&, const LaunchTarget&);

inline constexpr int kLadderASteps = 6;  // in the order of ladder_a_steps.h

// Queues on target.stream. UNIMPLEMENTED: built without CUDA.
LadderALaunch CudaLadderA(int step);

// Runs in target.emulator.
LadderALaunch EmulatedLadderA(int step);

}  // namespace gemmd::sm80
