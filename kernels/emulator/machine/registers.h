// setmaxnreg: registers that pass between the warpgroups of a block. PTX ISA,
// "Miscellaneous Instructions: setmaxnreg".
//
// A block starts with what the compiler gave each thread (LaunchRequest::registers), and no
// more comes: what one warpgroup takes, another gave back. Reported: a count that is no
// multiple of 8 in 24..256; an increase to less than the warpgroup has, a decrease to more;
// warps of a warpgroup that did not synchronise since the last one; warps that diverge; an
// increase that waits for registers which nobody gives back (a deadlock). Only a GPU shows whether
// the compiler's code keeps to the count.
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"

namespace gemmd::emulator {

void IncreaseRegisters(std::uint32_t count, const CallSite& site);
void DecreaseRegisters(std::uint32_t count, const CallSite& site);

}  // namespace gemmd::emulator
