// The two compilations of the Hopper GEMM, as functions: one for each of kTilings.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/kernel.h"

namespace gemmd::sm90 {

// Takes one problem, or, where the tiling TakesBatches(), a batch of equal ones.
using WgmmaGemmLaunch = absl::Status (*)(const Problem&, const Config&, absl::Span<const Arguments>,
                                         const LaunchTarget&);

// Queues on target.stream. UNIMPLEMENTED: built without CUDA.
template <int kTiling>
absl::Status CudaWgmmaGemm(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch, const LaunchTarget& target);

WgmmaGemmLaunch CudaWgmmaGemm(int tiling);

// Runs in target.emulator.
WgmmaGemmLaunch EmulatedWgmmaGemm(int tiling);

}  // namespace gemmd::sm90
