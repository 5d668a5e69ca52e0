#include "server/device/cuda/traits.h"

namespace gemmd {

DeviceTraits TraitsOf(const CudaProperties& properties) {
  CudaDeviceNumbers numbers;
  numbers.model = properties.name;
  numbers.compute_capability_major = properties.major;
  numbers.compute_capability_minor = properties.minor;
  numbers.multiprocessors = properties.multi_processor_count;
  numbers.clock_khz = properties.clock_khz;
  numbers.memory_clock_khz = properties.memory_clock_khz;
  numbers.memory_bus_bits = properties.memory_bus_width_bits;
  return MakeCudaTraits(properties.ordinal, numbers);
}

}  // namespace gemmd
