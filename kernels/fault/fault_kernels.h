// Kernels that fail, for trying out what a server, its clients and its supervisor do then.
// Only builds with --define=faults=on have them; a request asks for one by name:
//
//   fault/launch_failure      the launch is refused: INTERNAL, and the server goes on
//   fault/allocation_failure  there is no memory after all: RESOURCE_EXHAUSTED
//   fault/stall               the stream stops for a minute: the device counts as lost
//   fault/illegal_access      the kernel reads where nothing is: the device is lost
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendFaultKernels(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
