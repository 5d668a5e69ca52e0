// griddepcontrol: what a grid may do before the one ahead of it has ended.
//
// Launches follow one another here, so that the wait never blocks; but a launch that
// overlaps the one before it (LaunchRequest::overlaps_preceding) may touch only settled
// buffers until a wait is ordered before (global_order.h reports the rest).
#pragma once

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

void WaitForPrecedingGrid(const CallSite& site);

}  // namespace gemmd::emulator
