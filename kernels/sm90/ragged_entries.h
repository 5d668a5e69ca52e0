// The two compilations of the ragged product.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::sm90 {

// Queues on target.stream. UNIMPLEMENTED: built without CUDA.
absl::Status CudaRaggedGemm(const Problem& problem, const Config& config,
                            const Arguments& arguments, const LaunchTarget& target);

// Runs in target.emulator, whose report is of the last of its launches, or of the first wrong one.
absl::Status EmulatedRaggedGemm(const Problem& problem, const Config& config,
                                const Arguments& arguments, const LaunchTarget& target);

}  // namespace gemmd::sm90
