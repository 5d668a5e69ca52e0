// The products of the library by one format of B each.
#pragma once

#include "kernels/hopper/quant/launch.h"

namespace gemmd::hopper::quant {

using Launch = absl::Status(const Problem&, const Arguments&, const LaunchTarget&);

// kernel: 0 for few rows, 1 for many. Null where the format has no such tiling.
template <CodeFormat kFormat>
Launch* ProductOf(int kernel, int tiling);

}  // namespace gemmd::hopper::quant
