#include "kernels/emulator/arithmetic/byte_product.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/numbers/float_bits.h"
#include "kernels/emulator/arithmetic/power_of_two.h"

namespace gemmd::emulator {
namespace {

constexpr int kKeptBits = 13;  // below the largest exponent, and of an f32's fraction
constexpr std::int32_t kNone = -100000;
constexpr std::uint32_t kLostBits = (1u << (23 - kKeptBits)) - 1;  // of an f32

// value * 2^shift, truncated toward zero.
std::int64_t Shifted(std::int64_t value, int shift) {
  if (shift >= 0) return value * (std::int64_t{1} << shift);
  if (shift < -62) return 0;
  const std::int64_t magnitude = std::abs(value) >> -shift;
  return value < 0 ? -magnitude : magnitude;
}

struct Addend {
  std::int64_t mantissa;  // times 2^(exponent - 23)
  std::int32_t exponent;
};

Addend SplitF32(float value) {
  const std::uint32_t bits = BitsOf(value);
  const auto field = static_cast<std::int32_t>(bits >> 23 & 255);
  const auto fraction = static_cast<std::int64_t>(bits & 0x7fffff);
  if (field == 0 && fraction == 0) return {0, kNone};
  const std::int64_t magnitude = field > 0 ? fraction + (1 << 23) : fraction;
  const bool is_negative = bits >> 31 != 0;
  return {is_negative ? -magnitude : magnitude, std::max(field, 1) - 127};
}

float SpecialSum(float addend, const Factors& a, const Factors& b) {
  double sum = addend;
  for (int k = 0; k < a.count; ++k) {
    const auto i = static_cast<std::size_t>(k);
    sum += a.value[i] * b.value[i];
  }
  return RoundToF32(sum);
}

}  // namespace

FloatLine PrepareFloatLine(FactorFormat format, const ByteLine& codes) {
  FloatLine line;
  line.factors.count = kMostBlockProducts;
  for (std::size_t k = 0; k < codes.size(); ++k) {
    line.factors.Set(format, static_cast<int>(k), codes[k]);
    const double value = line.factors.value[k];
    const bool takes_part = value != 0 && std::isfinite(value);
    line.exponent[k] = takes_part ? line.factors.exponent[k] : kNone;
    line.mantissa[k] =
        takes_part ? static_cast<std::int32_t>(
                         value * PowerOfTwo(FractionBits(format) - line.factors.exponent[k]))
                   : 0;
  }
  line.is_finite = line.factors.finite;
  return line;
}

float AddFloatProducts(float addend, const FloatLine& a, const FloatLine& b, int fraction_bits) {
  if (!a.is_finite || !b.is_finite || !std::isfinite(addend)) {
    return SpecialSum(addend, a.factors, b.factors);
  }
  const Addend split = SplitF32(addend);
  std::int32_t largest = split.exponent;
  for (std::size_t k = 0; k < a.exponent.size(); ++k) {
    largest = std::max(largest, a.exponent[k] + b.exponent[k]);
  }
  if (largest < kNone / 2) return 0;
  std::int64_t sum = Shifted(split.mantissa, split.exponent - 23 + kKeptBits - largest);
  for (std::size_t k = 0; k < a.exponent.size(); ++k) {
    const std::int64_t product = std::int64_t{a.mantissa[k]} * b.mantissa[k];
    if (product == 0) continue;
    sum += Shifted(product, a.exponent[k] + b.exponent[k] - fraction_bits + kKeptBits - largest);
  }
  const double exact = static_cast<double>(sum) * PowerOfTwo(largest - kKeptBits);
  const float rounded = RoundToF32(exact);
  return FloatOf(BitsOf(rounded) & ~kLostBits);
}

std::int32_t AddIntegerProducts(std::int32_t addend, const ByteLine& a, bool a_is_signed,
                                const ByteLine& b, bool b_is_signed) {
  std::int64_t sum = addend;
  const auto value = [](std::uint8_t code, bool is_signed) {
    return is_signed ? std::int32_t{static_cast<std::int8_t>(code)} : std::int32_t{code};
  };
  for (std::size_t k = 0; k < a.size(); ++k) {
    sum += std::int64_t{value(a[k], a_is_signed)} * value(b[k], b_is_signed);
  }
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(sum)));
}

}  // namespace gemmd::emulator
