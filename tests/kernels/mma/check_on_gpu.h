// Kernels that multiply 16-bit matrices, on this machine's GPU: correct or not.
#pragma once

#include <vector>

#include "tests/kernels/mma/half_run.h"

namespace gemmd::testing {

// Every kernel against the emulator, bit by bit, padding included, at small sizes; at the large
// ones against each other, bit by bit, and the first one against binary64 on some of its rows.
// Prints what it found; returns what main() does.
int CheckOnGpu(const std::vector<const char*>& kernels, const std::vector<ProductForm>& forms,
               const std::vector<Shape>& large);

}  // namespace gemmd::testing
