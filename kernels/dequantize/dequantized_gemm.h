// Quantized operands on GPUs: decoded into the workspace (dequantize.h), multiplied by a kernel of
// bf16, f16, f32 or f64, and scaled by their line factors in an epilogue (epilogue/epilogue.h).
// Decoding costs three passes over memory; codes stay as small in the device's memory as they came.
//
//   dequantize/K  where K is a kernel that serves unnamed requests of the type to decode to
//
// The class is K's, and a row's bits depend on what K's do. Error, with E the bound of K on values,
// relative to |A| |B|, and u = 2^-24, elementwise, activation aside:
//
//     |D - exact| <= (E + 4 u) (|alpha| |A| |B|) + 4 u (|beta C| + |bias|) + K 2^-132 |alpha| s
//
// plus half a unit in the last place of D's type; where values are rounded to f32 2 u more. u is
// 2^-53 where accumulate is f64 or int32. The last term is of values that vanish beside their
// line's largest scale: s is the product of the largest scales of the row and of the column.
// Nothing overflows unless a line factor times a sum does.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

// Appends an entry for each kernel in `kernels` that can multiply the decoded operands.
void AppendDequantizedGemm(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
