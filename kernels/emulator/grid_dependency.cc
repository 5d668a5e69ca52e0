#include "kernels/emulator/grid_dependency.h"

#include "kernels/emulator/machine.h"

namespace gemmd::emulator {

void WaitForPrecedingGrid() { CurrentThread().knows.preceding_grid = true; }

}  // namespace gemmd::emulator
