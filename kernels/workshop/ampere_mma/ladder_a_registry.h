// Registry entries of ladder A before its last step: sm80/a01a, a01b, a02, a03a, a03b, a04, a05
// (kernels/mma/copy_async/entry.h). They teach: requests have to name them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendLadderA(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
