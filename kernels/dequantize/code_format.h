// The bits of a code, as device code reads them. A value.
#pragma once

#include <cstdint>

namespace gemmd::dequantize {

// Codes of kTable are places in DequantizeParams::table.
enum class CodeKind : std::uint8_t { kSigned, kUnsigned, kFloat, kE8M0, kTable };

// The meaning of a float's codes with the largest exponent field: base/numbers/quant/small_float.h.
enum class CodeTop : std::uint8_t { kFinite, kOneNan, kInfinityAndNans };

struct CodeFormat {
  CodeKind kind = CodeKind::kUnsigned;
  CodeTop top = CodeTop::kFinite;
  int bits = 8;
  int fraction_bits = 0;
  float unit = 1;  // of floats: 2^(127 - bias)
};

}  // namespace gemmd::dequantize
