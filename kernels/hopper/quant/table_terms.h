// Numbers of a code table as kernels multiply them: sums of two numbers of A's type.
#pragma once

#include <cstdint>

#include "base/numbers/float_bits.h"
#include "base/numbers/types.h"

namespace gemmd::hopper::quant {

// The bits of the number that is nearest, and above them of the one that is nearest to what it
// leaves. `type`: f16 or bf16. With bf16 a normal number is off by 2^-17 of itself at most; with
// f16 by 2^-22, or by 2^-25 where that is more. REQUIRES: f16 holds the number's magnitude.
inline std::uint32_t TermsOf(float number, DataType type) {
  const bool is_f16 = type == DataType::kF16;
  const std::uint16_t first = is_f16 ? ToF16(number) : ToBf16(number);
  const float rest = number - (is_f16 ? FromF16(first) : FromBf16(first));
  return std::uint32_t{is_f16 ? ToF16(rest) : ToBf16(rest)} << 16 | first;
}

}  // namespace gemmd::hopper::quant
