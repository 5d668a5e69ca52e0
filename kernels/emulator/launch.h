// Runs a kernel, written against kernels/ptx/, on the CPU.
#pragma once

#include "absl/functional/function_ref.h"
#include "kernels/emulator/options.h"

namespace gemmd::emulator {

// Calls body() once for each thread of the grid, each on a fiber of its own. Returns
// when all have returned, or at the first broken rule; whatever the kernel wrote to
// global memory until then stays. One core, no parallelism: about 0.5 GMAC/s, checks included.
//
// Different OS threads may launch at the same time. Not reentrant.
Report Launch(const LaunchRequest& request, const Options& options, absl::FunctionRef<void()> body);

}  // namespace gemmd::emulator
