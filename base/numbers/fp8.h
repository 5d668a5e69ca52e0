// The 8-bit floats E4M3 and E5M2, as codes, to and from binary32.
//
// Source: "OCP 8-bit Floating Point Specification (OFP8)", revision 1.0, Open Compute
// Project, 2023:
//
//           sign exponent fraction  bias  largest  smallest normal, subnormal  infinity  NaN
//   E4M3    1    4        3         7     448      2^-6, 2^-9                  none      S.1111.111
//   E5M2    1    5        2         15    57344    2^-14, 2^-16                S.11111.00  others
//
// E4M3 is what PyTorch and ml_dtypes call float8_e4m3fn.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"

namespace gemmd {

inline constexpr float kMaxFp8E4M3 = 448;
inline constexpr float kMaxFp8E5M2 = 57344;

// Exact: every code is a binary32.
float FromFp8E4M3(std::uint8_t code);
float FromFp8E5M2(std::uint8_t code);

// Round to nearest, ties to even, saturating (OFP8's mode SAT, CUDA's __NV_SATFINITE, which
// cuBLASLt applies to an fp8 result): what is larger in magnitude than the largest finite
// value becomes that value, infinities included. NaN stays NaN. PyTorch's plain conversion
// is OFP8's mode NONSAT instead, and gives the same codes up to where that one overflows.
std::uint8_t ToFp8E4M3(float value);
std::uint8_t ToFp8E5M2(float value);

inline bool IsFp8(DataType type) {
  return type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2;
}

}  // namespace gemmd
