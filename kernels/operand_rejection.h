// The operands that kernels of quantized products take. Pure functions.
#pragma once

#include <string>

#include "base/numbers/types.h"

namespace gemmd {

// Returns whether an operand of the type is its own values: f32, f16 and bf16.
bool IsRealOperand(DataType type);

// Why an operand of that name ("A") is neither a quantized one nor of real values, in one line;
// empty if it is.
std::string OperandRejection(const char* name, DataType type, const Scaling& scaling);

}  // namespace gemmd
