// A CUDA device's traits from what its driver says of it. Pure.
#pragma once

#include <string>

#include "kernels/device_traits.h"

namespace gemmd {

// The numbers that cudaDeviceProp and cudaDeviceGetAttribute() give.
struct CudaDeviceNumbers {
  std::string model;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0;         // cudaDevAttrClockRate: the highest
  int memory_clock_khz = 0;  // cudaDevAttrMemoryClockRate
  int memory_bus_bits = 0;   // cudaDevAttrGlobalMemoryBusWidth
};

// Rates are a multiprocessor's per cycle (the table in cuda_traits.cc names its sources)
// times multiprocessors and clock, and memory's is two transfers a cycle of the whole bus;
// each times what a long product or copy sustains of its peak. A compute capability that
// the table does not have takes the row before it.
DeviceTraits MakeCudaTraits(int ordinal, const CudaDeviceNumbers& numbers);

}  // namespace gemmd
