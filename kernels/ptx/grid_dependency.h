// Launches that overlap the one before them in a stream (sm_90; LaunchShape in launch.h).
// PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol".
//
// In the emulator launches follow one another, and both do nothing.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// griddepcontrol.wait: until the grids before this one have completed and their writes
// are visible. Before it, nothing that they write may be read.
GEMMD_DEVICE void WaitForPrecedingGrid() {
  GEMMD_ON_DEVICE(asm volatile("griddepcontrol.wait;" ::: "memory");)
}

// griddepcontrol.launch_dependents: the next grid may start once all blocks said so.
GEMMD_DEVICE void LaunchDependentGrid() {
  GEMMD_ON_DEVICE(asm volatile("griddepcontrol.launch_dependents;" ::: "memory");)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
