// A long product as launches that are not: blocks of D, never of K. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/panel.h"

namespace gemmd {

// Blocks whose rows and columns, but for the last ones', are multiples of these, and of the steps
// at which panels of the problem may begin. Powers of two.
struct SliceSteps {
  std::int64_t rows = 64;
  std::int64_t columns = 512;
  // Cuts rows or columns, not both.
  bool one_dimension = false;
};

// Blocks that cover D, in order, none of them predicted above `slice_us` where blocks of one
// step allow that; the cut that is predicted to cost least. Predictions are scaled so that
// the whole has that of the plan, which may be measured. Empty where one block would do, or
// where the plan's kernel does not take the blocks or would give them other bits.
std::vector<Panel> CutIntoSlices(const Problem& problem, const Plan& plan,
                                 const DeviceTraits& traits, const SliceSteps& steps,
                                 double slice_us);

}  // namespace gemmd
