// For the .cu files, which share the tilings between them so that they compile in parallel.
#pragma once

#include "kernels/sm90/wgmma_gemm_entries.h"
#include "kernels/sm90/wgmma_gemm_launch.h"

namespace gemmd::sm90 {

template <int kTiling>
absl::Status CudaWgmmaGemm(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch, const LaunchTarget& target) {
  return LaunchTiling<kTiling>(problem, config, batch, target);
}

}  // namespace gemmd::sm90
