// Tells on which multiprocessor each block of a grid runs. Blocks stay until all that fit are
// there, so that one multiprocessor does not take two in turn.
#pragma once

#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/multiprocessor.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

struct PlacementProbeParams {
  std::uint32_t* multiprocessors;  // of each block
};

GEMMD_KERNEL void PlacementProbe(const GEMMD_GRID_CONSTANT PlacementProbeParams params) {
  constexpr int kRests = 8;
  constexpr std::uint32_t kRestNanoseconds = 10000;
  if (ptx::ThreadIndex() != 0) return;
  ptx::StoreGlobal(params.multiprocessors + ptx::BlockIndexX(), ptx::MultiprocessorIndex());
  for (int i = 0; i < kRests; ++i) ptx::Sleep(kRestNanoseconds);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
