#include "kernels/workshop/bench/device_work_launch.h"

namespace gemmd::bench {

DeviceWork CudaDeviceWork() { return MakeDeviceWork(); }

}  // namespace gemmd::bench
