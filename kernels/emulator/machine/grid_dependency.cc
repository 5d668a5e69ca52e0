#include "kernels/emulator/machine/grid_dependency.h"

#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

void WaitForPrecedingGrid(const CallSite& site) {
  if (!IsSkipped(site)) CurrentThread().knows.preceding_grid = true;
}

}  // namespace gemmd::emulator
