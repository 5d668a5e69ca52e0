// The running thread's index, its block's, and the size of the grid. PTX ISA, "Special Registers".
#pragma once

#include "kernels/ptx/platform.h"

#ifndef __CUDACC__
#include "kernels/emulator/machine/indices.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// %tid.x: blocks are one-dimensional.
GEMMD_DEVICE std::uint32_t ThreadIndex() {
  GEMMD_ON_DEVICE(return threadIdx.x;)
  GEMMD_IN_EMULATOR(return emulator::ThreadIndex();)
}

// %tid.x % 32. Warps are 32 consecutive threads.
GEMMD_DEVICE std::uint32_t LaneIndex() { return ThreadIndex() % 32; }

// %ctaid: grids are two-dimensional.
GEMMD_DEVICE std::uint32_t BlockIndexX() {
  GEMMD_ON_DEVICE(return blockIdx.x;)
  GEMMD_IN_EMULATOR(return emulator::BlockIndex().x;)
}
GEMMD_DEVICE std::uint32_t BlockIndexY() {
  GEMMD_ON_DEVICE(return blockIdx.y;)
  GEMMD_IN_EMULATOR(return emulator::BlockIndex().y;)
}

// %nctaid.x
GEMMD_DEVICE std::uint32_t GridSizeX() {
  GEMMD_ON_DEVICE(return gridDim.x;)
  GEMMD_IN_EMULATOR(return emulator::GridSize().x;)
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
