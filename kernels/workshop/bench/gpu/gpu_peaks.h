// The rooflines' two ends on this GPU: bytes read and tensor core operations a second.
#pragma once

#include "kernels/workshop/bench/gpu/gpu_queue.h"
#include "kernels/workshop/bench/machine.h"

namespace gemmd::bench {

// The read bandwidth is the best of four grid sizes over memory of 4 GiB (or a quarter of what is
// free); the tensor peaks are medians of three, random normal operands.
absl::StatusOr<Peaks> MeasureGpuPeaks(const DeviceTraits& traits, bool is_bf16,
                                      const Protocol& protocol, GpuQueue* queue);

}  // namespace gemmd::bench
