// The traits of a GPU that selection needs. Pure.
#pragma once

#include "kernels/gemm.h"
#include "server/device/cuda/backend/backend.h"

namespace gemmd {

DeviceTraits TraitsOf(const CudaProperties& properties);

}  // namespace gemmd
