// Chooses resident operands to copy to more devices: those whose requests wait where others idle.
#pragma once

#include <vector>

#include "base/time/clock.h"
#include "kernels/gemm.h"
#include "server/admission/resident_operands.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"

namespace gemmd {

// A product that was let in on the first device of its route.
struct RoutedProduct {
  const ResidentOperands* residents = nullptr;
  const Problem* problem = nullptr;
  double device_us = 0;  // predicted, of itself
};

// Adds to the demand for copies of its operands what it would have gained on the device with the
// least backlog of those that do not hold them, and has them copied there once that is the copy's
// price (CopyDemand). Several operands that are missing there share the gain, and none is copied
// before all have earned it: the product needs them together.
// `store` null: nothing is copied.
void ConsiderCopy(const std::vector<RoutedDevice>& route, const RoutedProduct& product, TimeNs now,
                  OperandStore* store);

}  // namespace gemmd
