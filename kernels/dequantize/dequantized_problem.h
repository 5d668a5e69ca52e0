// Products of quantized operands as products of what these are decoded to. Pure functions of the
// problem.
#pragma once

#include <cstdint>

#include "kernels/problem.h"

namespace gemmd {

// Returns whether an operand is quantized and has to be decoded, because no kernel of a GPU
// multiplies its codes. Kernels multiply the codes of int8, of fp8 with scales of whole lines, and
// of a packed B. Operands that are decoded land as they were sent.
bool IsDequantized(const Problem& problem);

// The type in which both operands are exact, line factors aside (dequantize.h), and sums are what
// the problem's accumulate type promises:
//   accumulate f64 or int32   f64
//   accumulate f32            bf16, else f16, where both operands' values are exact in it; else
//                             f32, to which scales of more than 4 bits times codes are rounded
// A product of two operands that are not quantized has their type.
DataType DequantizedType(const Problem& problem);

// Where the parts of a launch lie, in bytes from the start of its workspace, and the product of
// values in between.
struct DequantizedLayout {
  // An operand of the product's own type goes into it as it is, and has no parts.
  struct Operand {
    bool is_decoded = false;
    std::uint64_t values = 0;
    std::uint64_t line_scales = 0;  // of an operand that has scales
    std::uint64_t line_factors = 0;
  };

  explicit DequantizedLayout(const Problem& problem);

  DataType type;    // to decode to
  Problem product;  // values by values, into a plane of f32 or f64 in D's order
  Operand a;
  Operand b;
  std::uint64_t sums = 0;
  std::uint64_t workspace = 0;  // the product's own
};

}  // namespace gemmd
