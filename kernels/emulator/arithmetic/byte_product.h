// The arithmetic of wgmma on 8 bits, bit for bit as an H200 does it.
//
// Floats: one instruction adds the 32 products of its K to the accumulator.
//   1. Products are exact, with exponents as tensor_core.h counts them.
//   2. Products and addend are aligned to the largest exponent among them, and each is truncated
//      toward zero to 13 bits below that exponent.
//   3. The sum is exact, and truncated toward zero to an f32 of 13 fraction bits.
// The addend too keeps 13 bits, so that sums over a long K lose more than f32's would.
// docs/lab/emulator.md says what was compared.
//
// Integers: int32 that wraps.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/emulator/arithmetic/product_block.h"
#include "kernels/emulator/arithmetic/tensor_core.h"

namespace gemmd::emulator {

using ByteLine = OperandLine<std::uint8_t>;

// A line of floats, prepared: a factor is mantissa * 2^(exponent - fraction bits), where the
// exponent is as tensor_core.h counts it, a zero's far below all others.
struct FloatLine {
  std::array<std::int32_t, kMostBlockProducts> mantissa;
  std::array<std::int32_t, kMostBlockProducts> exponent;
  bool is_finite;
  Factors factors;  // for what is not finite
};

// REQUIRES: kE4m3 or kE5m2.
FloatLine PrepareFloatLine(FactorFormat format, const ByteLine& codes);

// Returns addend + a * b, by the rule above. `fraction_bits` are those of both formats together.
float AddFloatProducts(float addend, const FloatLine& a, const FloatLine& b, int fraction_bits);

// The fraction bits of kE4m3 and kE5m2.
constexpr int FractionBits(FactorFormat format) { return format == FactorFormat::kE4m3 ? 3 : 2; }

// Returns addend + a * b, modulo 2^32.
std::int32_t AddIntegerProducts(std::int32_t addend, const ByteLine& a, bool a_is_signed,
                                const ByteLine& b, bool b_is_signed);

}  // namespace gemmd::emulator
