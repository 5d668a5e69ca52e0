// Where a block runs, and rest. PTX ISA, "Special Registers: %smid" and "nanosleep".
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/machine/indices.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// %smid: the block's multiprocessor. The emulator's are as many as blocks.
GEMMD_DEVICE std::uint32_t MultiprocessorIndex() {
  GEMMD_ON_DEVICE(std::uint32_t index; asm volatile("mov.u32 %0, %%smid;"
                                                    : "=r"(index));
                  return index;)
  GEMMD_IN_EMULATOR(return emulator::BlockIndex().x;)
}

// nanosleep.u32: for about that long, by the hardware's choice for between none and twice of it.
// REQUIRES: at most a million. Time does not pass in the emulator.
GEMMD_DEVICE void Sleep(std::uint32_t nanoseconds) {
  GEMMD_ON_DEVICE(asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));)
  GEMMD_IN_EMULATOR(static_cast<void>(nanoseconds);)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
