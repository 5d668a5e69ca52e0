#include "kernels/emulator/machine/indices.h"

#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

std::uint32_t ThreadIndex() { return CurrentThread().index; }

Dimensions BlockIndex() { return CurrentThread().block->index; }

Dimensions GridSize() { return CurrentGrid().request->grid; }

std::uint32_t RankInCluster() { return CurrentThread().block->rank; }

}  // namespace gemmd::emulator
