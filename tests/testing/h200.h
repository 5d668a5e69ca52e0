// An H200 as selection sees it, on machines that have none.
#pragma once

#include "kernels/gemm.h"

namespace gemmd::testing {

inline CudaDeviceNumbers H200Numbers() {
  CudaDeviceNumbers numbers;
  numbers.model = "NVIDIA H200";
  numbers.compute_capability_major = 9;
  numbers.multiprocessors = 132;
  numbers.clock_khz = 1980000;
  numbers.memory_clock_khz = 3201000;
  numbers.memory_bus_bits = 6016;
  return numbers;
}

inline DeviceTraits H200() { return MakeCudaTraits(0, H200Numbers()); }

}  // namespace gemmd::testing
