// The elements of quantized matrices: what a code is worth, and the code of a value.
#pragma once

#include <cstdint>

#include "base/numbers/quant/rounding.h"
#include "base/numbers/quant/small_float.h"
#include "base/numbers/types.h"

namespace gemmd {

// The format of a type that is a float of at most 32 bits, else null.
const FloatFormat* FormatOf(DataType type);

// int8, uint8, int4 and uint4: two's complement or binary, and the range of their values.
struct IntegerRange {
  int lowest;
  int highest;
};
bool IsQuantizedInteger(DataType type);
IntegerRange RangeOf(DataType type);  // REQUIRES: IsQuantizedInteger(type)

// The largest magnitude that an encoder makes an element of: 127 for int8 and 7 for int4, so that
// negation stays in range, else the type's largest value.
double LargestElement(DataType type);

// The lowest value: -128 of int8, 0 of unsigned integers, -127 of iq4_nl.
double LowestElement(DataType type);

// Exact. REQUIRES: a type of elements or of scales: those above and E8M0.
double DecodeElement(DataType type, std::uint32_t code);

// The code nearest to the value, or the one that stochastic rounding chooses for the element of
// that index. Integers are rounded by magnitude, as floats are, then `zero_point` is added, then
// they saturate at the range of the type; NaN becomes the zero point. REQUIRES: not E8M0.
std::uint32_t EncodeElement(DataType type, double value, int zero_point, const Rounding& rounding,
                            std::uint64_t index);

}  // namespace gemmd
