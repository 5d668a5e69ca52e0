// Host code of the Hopper GEMM on tf32 operands, compiled for the device and for the emulator.
#pragma once

#include "kernels/hopper/half/tf32_units.h"
#include "kernels/hopper/half/wgmma_gemm_launch.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Launches one problem or, where the tiling TakesBatches(), a batch of equal ones. REQUIRES:
// Rejection() of the tiling's entry is empty.
template <int kTiling>
absl::Status LaunchTf32Tiling(const Problem& problem, const Config& config,
                              absl::Span<const Arguments> batch, const LaunchTarget& target) {
  static_assert(kTilings[kTiling].has_epilogue);
  const Problem halves = InHalves(problem);
  return LaunchWgmmaGemm<kTiling, Tf32Element, Major::kK, Major::kK, true>(
      halves, config, MakeFrame(halves, batch[0]), batch, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
