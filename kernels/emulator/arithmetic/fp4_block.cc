#include "kernels/emulator/arithmetic/fp4_block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/emulator/arithmetic/power_of_two.h"
#include "kernels/emulator/arithmetic/tensor_core.h"

namespace gemmd::emulator {
namespace {

constexpr int kAlignedBits = 35;
constexpr int kBlock = kFp4Products / kFp4Scales;
constexpr std::int32_t kLeastExponent = -126;  // of a normal f32

Fp4Scale DecodeScale(Fp4ScaleType type, std::uint8_t code) {
  if (type == Fp4ScaleType::kE8m0) return {1, static_cast<std::int32_t>(code) - 127, code == 0xff};
  const std::uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0) return {0, kLeastExponent, false};
  const std::uint32_t field = magnitude >> 3;
  const double fraction = (magnitude & 7) / 8.0;
  if (field == 0) return {fraction, -6, false};
  return {1 + fraction, static_cast<std::int32_t>(field) - 7, magnitude == 0x7f};
}

std::int32_t ExponentOf(double addend) {
  return addend == 0 ? kLeastExponent : std::max(std::ilogb(addend), kLeastExponent);
}

}  // namespace

Fp4Line PrepareFp4Line(const OperandLine<std::uint8_t>& packed, bool is_negated, Fp4ScaleType type,
                       const std::array<std::uint8_t, kFp4Scales>& scales) {
  constexpr std::int16_t kDoubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  Fp4Line line;
  for (std::size_t k = 0; k < line.doubled.size(); ++k) {
    const std::uint32_t code = packed[k / 2] >> (4 * (k % 2)) & 15u;
    const std::int16_t magnitude = kDoubled[code & 7];
    const bool is_negative = (code & 8) != 0 ? !is_negated : is_negated;
    line.doubled[k] = static_cast<std::int16_t>(is_negative ? -magnitude : magnitude);
  }
  for (std::size_t i = 0; i < scales.size(); ++i) line.scales[i] = DecodeScale(type, scales[i]);
  return line;
}

float MultiplyAddFp4(float addend, const Fp4Line& row, const Fp4Line& column) {
  bool is_nan = std::isnan(addend);
  std::int32_t exponents[kFp4Scales];
  std::int32_t largest = ExponentOf(addend);
  for (int i = 0; i < kFp4Scales; ++i) {
    const Fp4Scale& a = row.scales[i];
    const Fp4Scale& b = column.scales[i];
    is_nan = is_nan || a.is_nan || b.is_nan;
    exponents[i] = a.exponent + b.exponent;
    largest = std::max(largest, exponents[i]);
  }
  if (is_nan) return RoundToF32(std::numeric_limits<double>::quiet_NaN());
  if (std::isinf(addend)) return addend;
  double sum = std::trunc(addend * PowerOfTwo(kAlignedBits - largest));
  for (int i = 0; i < kFp4Scales; ++i) {
    std::int32_t quadruple = 0;
    for (int k = i * kBlock; k < (i + 1) * kBlock; ++k) {
      quadruple += row.doubled[k] * column.doubled[k];
    }
    const double scaled =
        quadruple * 0.25 * row.scales[i].significand * column.scales[i].significand;
    sum += std::trunc(scaled * PowerOfTwo(kAlignedBits + exponents[i] - largest));
  }
  return RoundToF32(sum * PowerOfTwo(largest - kAlignedBits));
}

}  // namespace gemmd::emulator
