// Registry entries of ladder B but for the one that serves, tma_r_32
// (kernels/mma/tensor_copy/entry.h). They teach: requests have to name them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendLadderB(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
