// The two compilations of the ragged products' launches.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::sm90 {

// sm90/ragged256x128. Queues on target.stream. UNIMPLEMENTED: built without CUDA.
absl::Status CudaRaggedGemm(const Problem& problem, const Arguments& arguments,
                            const LaunchTarget& target);
// Copies operands whose lines are not aligned, as AlignLines() (ragged_workspace.h) has them.
absl::Status CudaRepack(const Problem& problem, const Arguments& arguments,
                        const LaunchTarget& target);

// Run in target.emulator, whose report is of the last launch, or of the first wrong one.
absl::Status EmulatedRaggedGemm(const Problem& problem, const Arguments& arguments,
                                const LaunchTarget& target);
absl::Status EmulatedRepack(const Problem& problem, const Arguments& arguments,
                            const LaunchTarget& target);

}  // namespace gemmd::sm90
