// Launches that overlap the one before them in a stream (sm_90; LaunchShape in launch.h).
// PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol".
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/machine/grid_dependency.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// griddepcontrol.wait: until the grids before this one have completed and their writes
// are visible, to this thread and to those it synchronises with after. Before it, nothing
// that they may write is touched: only buffers that are settled (DeviceBuffer).
GEMMD_DEVICE void WaitForPrecedingGrid(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("griddepcontrol.wait;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::WaitForPrecedingGrid(site);)
}

// griddepcontrol.launch_dependents: the next grid may start once all blocks said so or have
// ended. It says nothing of memory: that grid's wait is for the end of this one. Once a block
// is as good as often, so that there is nothing to misuse and the emulator does nothing.
GEMMD_DEVICE void LaunchDependentGrid() {
  GEMMD_ON_DEVICE(asm volatile("griddepcontrol.launch_dependents;" ::: "memory");)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
