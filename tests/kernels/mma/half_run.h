// Runs kernels that multiply 16-bit matrices in the emulator and compares every bit of D.
#pragma once

#include <string>

#include "kernels/emulator/options.h"
#include "tests/kernels/mma/half_operands.h"

namespace gemmd::testing {

// Runs a registry entry the way a device does, and compares D with ExactProduct().
Outcome RunEntry(const std::string& name, ProductForm form, const Shape& shape,
                 const emulator::Options& options, HalfOperands* operands);

// "a05_f16_f32_77x131x333": of kernel sm80/a05.
std::string CaseName(const std::string& kernel, ProductForm form, const Shape& shape);

}  // namespace gemmd::testing
