// Sets the number of registers that a warp may use (sm_90a).
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/machine/registers.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// setmaxnreg.inc.sync.aligned.u32 and .dec: every warp of a warpgroup executes it, and its
// warps synchronise before the next one. kCount is a multiple of 8 in 24..256. Decreasing gives
// registers to the block's pool; increasing takes them, and waits until there are enough.
// PTX ISA, "Miscellaneous Instructions: setmaxnreg".
template <int kCount>
GEMMD_DEVICE void IncreaseRegisters(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));)
  GEMMD_IN_EMULATOR(emulator::IncreaseRegisters(kCount, site);)
}

template <int kCount>
GEMMD_DEVICE void DecreaseRegisters(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));)
  GEMMD_IN_EMULATOR(emulator::DecreaseRegisters(kCount, site);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
