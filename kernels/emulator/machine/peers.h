// Other blocks of the cluster, which start and end on their own.
#pragma once

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

// Ends the launch unless the running thread is in the block or knows that the block runs: that a
// thread of it has passed a barrier or arrived somewhere. A cluster barrier stands before the first
// instruction that reaches another block. PTX ISA, "State Spaces: Shared State Space",
// .shared::cluster, and "tcgen05.alloc" of .cta_group::2.
void CheckStarted(const Block& block, const char* what, const CallSite& site);

}  // namespace gemmd::emulator
