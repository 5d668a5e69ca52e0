// The benchmark's own kernels, queued on a CUDA stream or run in the emulator.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"
#include "kernels/workshop/bench/device_params.h"

namespace gemmd::bench {

// Errors: as ptx::Launch(); UNIMPLEMENTED: built without CUDA, and no emulator in the target.
struct BenchWork {
  absl::Status (*fill)(const FillWork& work, const LaunchTarget& target);
  absl::Status (*compare)(const CompareWork& work, const LaunchTarget& target);
  absl::Status (*read)(const ReadWork& work, const LaunchTarget& target);
  absl::Status (*mma)(const TensorWork& work, const LaunchTarget& target);
  // Does nothing where the code is not for sm_90a.
  absl::Status (*wgmma)(const TensorWork& work, const LaunchTarget& target);
};

// Null members where this build has no device code.
BenchWork CudaBenchWork();
BenchWork EmulatedBenchWork();

}  // namespace gemmd::bench
