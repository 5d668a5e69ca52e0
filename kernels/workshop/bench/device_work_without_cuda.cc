#include "kernels/workshop/bench/device_work.h"

namespace gemmd::bench {

DeviceWork CudaDeviceWork() { return {}; }

}  // namespace gemmd::bench
