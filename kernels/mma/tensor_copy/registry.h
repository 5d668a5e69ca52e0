// The registry entry sm120/tma_r_32 (entry.h).
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendTensorCopyGemm(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
