// The registry entry sm80/a06 (entry.h).
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendCopyAsyncGemm(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
