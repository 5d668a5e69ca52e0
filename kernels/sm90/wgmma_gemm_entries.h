// The two compilations of the Hopper GEMM, as functions: one for each of kTilings.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd::sm90 {

using WgmmaGemmLaunch = absl::Status (*)(const Problem&, const Config&, const Arguments&,
                                         const LaunchTarget&);

// Queues on target.stream. UNIMPLEMENTED: built without CUDA.
template <int kTiling>
absl::Status CudaWgmmaGemm(const Problem& problem, const Config& config, const Arguments& arguments,
                           const LaunchTarget& target);

WgmmaGemmLaunch CudaWgmmaGemm(int tiling);

// Runs in target.emulator.
WgmmaGemmLaunch EmulatedWgmmaGemm(int tiling);

}  // namespace gemmd::sm90
