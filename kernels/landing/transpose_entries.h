// The two compilations of the transposition, as functions.
#pragma once

#include "absl/status/status.h"
#include "kernels/landing/transpose.h"

namespace gemmd::landing {

// UNIMPLEMENTED: built without CUDA.
absl::Status CudaTranspose(const Transposition& transposition, const LaunchTarget& target);

absl::Status EmulatedTranspose(const Transposition& transposition, const LaunchTarget& target);

}  // namespace gemmd::landing
