// What selection needs to know of a GPU. Pure.
#pragma once

#include "kernels/gemm.h"
#include "server/device/cuda/backend.h"

namespace gemmd {

DeviceTraits TraitsOf(const CudaProperties& properties);

}  // namespace gemmd
