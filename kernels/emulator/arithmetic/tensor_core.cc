#include "kernels/emulator/arithmetic/tensor_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/float_bits.h"
#include "kernels/emulator/arithmetic/power_of_two.h"

namespace gemmd::emulator {
namespace {

constexpr int kFractionBits = 25;
// The exponent of a zero: below every sum of two exponents that takes part.
constexpr std::int32_t kNoExponent = -100000;
constexpr std::uint32_t kCanonicalNan = 0x7fffffffu;

std::int32_t ExponentOf(double value) {
  if (value == 0) return kNoExponent;
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::int32_t>((bits >> 52) & 0x7ff) - 1023;
}

// A format's fields, from the lowest bit: ignored ones, fraction, exponent, sign.
struct Layout {
  int ignored_bits;
  int fraction_bits;
  int exponent_bits;
  bool has_infinity;  // and every other exponent of all ones is NaN; else `nan` alone is
  std::uint32_t nan;
};
constexpr std::uint32_t kNoNan = ~0u;

Layout LayoutOf(FactorFormat format) {
  switch (format) {
    case FactorFormat::kF16:
      return {0, 10, 5, true, 0};
    case FactorFormat::kBf16:
      return {0, 7, 8, true, 0};
    case FactorFormat::kTf32:
      return {13, 10, 8, true, 0};
    case FactorFormat::kE4m3:
      return {0, 3, 4, false, 0x7f};
    case FactorFormat::kE5m2:
      return {0, 2, 5, true, 0};
    case FactorFormat::kE2m3:
      return {0, 3, 2, false, kNoNan};
    case FactorFormat::kE3m2:
      return {0, 2, 3, false, kNoNan};
    case FactorFormat::kE2m1:
      return {0, 1, 2, false, kNoNan};
  }
  return {};
}

double SpecialSum(double addend, const Factors& a, const Factors& b) {
  double sum = addend;
  for (int k = 0; k < a.count; ++k) sum += a.value[k] * b.value[k];
  return sum;
}

}  // namespace

float Widen(HalfFormat format, std::uint16_t bits) {
  return format == HalfFormat::kF16 ? FromF16(bits) : FromBf16(bits);
}

std::uint16_t Narrow(HalfFormat format, float value) {
  if (std::isnan(value)) return 0x7fff;
  return format == HalfFormat::kF16 ? ToF16(value) : ToBf16(value);
}

std::uint32_t RoundToTf32(std::uint32_t bits) {
  if ((bits & 0x7f800000) == 0x7f800000) return bits;
  return (bits + 0xfff + (bits >> 13 & 1)) & ~std::uint32_t{0x1fff};
}

void Factors::Set(FactorFormat format, int k, std::uint32_t bits) {
  const Layout layout = LayoutOf(format);
  const std::uint32_t element = bits >> layout.ignored_bits;
  const int sign_bit = layout.exponent_bits + layout.fraction_bits;
  const std::uint32_t magnitude = element & ((1u << sign_bit) - 1);
  const auto all_ones = (1u << layout.exponent_bits) - 1;
  const std::int32_t bias = static_cast<std::int32_t>(all_ones / 2);
  const std::uint32_t field = magnitude >> layout.fraction_bits;
  const std::uint32_t fraction = magnitude & ((1u << layout.fraction_bits) - 1);
  const std::int32_t place = std::max(static_cast<std::int32_t>(field), 1) - bias;
  const double whole = fraction + (field > 0 ? 1u << layout.fraction_bits : 0u);
  double absolute = whole * PowerOfTwo(place - layout.fraction_bits);
  const bool is_special = layout.has_infinity ? field == all_ones : magnitude == layout.nan;
  if (is_special) {
    absolute = layout.has_infinity && fraction == 0 ? std::numeric_limits<double>::infinity()
                                                    : std::numeric_limits<double>::quiet_NaN();
  }
  value[k] = (element >> sign_bit & 1) != 0 ? -absolute : absolute;
  exponent[k] = magnitude == 0 ? kNoExponent : place;
  finite = finite && !is_special;
}

void Factors::Scale(std::uint8_t code) {
  constexpr std::uint8_t kNan = 0xff;
  const std::int32_t scale = static_cast<std::int32_t>(code) - 127;
  for (int k = 0; k < count; ++k) {
    value[k] *= code == kNan ? std::numeric_limits<double>::quiet_NaN() : PowerOfTwo(scale);
    if (exponent[k] != kNoExponent) exponent[k] += scale;
  }
  finite = finite && code != kNan;
}

double AlignedSum(double addend, const Factors& a, const Factors& b) {
  if (!a.finite || !b.finite || !std::isfinite(addend)) return SpecialSum(addend, a, b);
  std::int32_t largest = ExponentOf(addend);
  for (int k = 0; k < a.count; ++k) {
    largest = std::max(largest, a.exponent[k] + b.exponent[k]);
  }
  if (largest < kNoExponent / 2) return 0;
  const double scale = PowerOfTwo(kFractionBits - largest);
  // A scaled product is below 2^27 and the scaled addend below 2^26, so that 32-bit
  // conversions, which truncate, hold them.
  double sum = static_cast<std::int32_t>(addend * scale);
  for (int k = 0; k < a.count; ++k) {
    sum += static_cast<std::int32_t>(a.value[k] * b.value[k] * scale);
  }
  return sum * PowerOfTwo(largest - kFractionBits);
}

float RoundToF32(double sum) {
  if (std::isnan(sum)) return FloatOf(kCanonicalNan);
  const float nearest = static_cast<float>(sum);
  if (std::fabs(static_cast<double>(nearest)) <= std::fabs(sum)) return nearest;
  // An overflow stays infinite; else one step toward zero.
  return std::isinf(nearest) ? nearest : std::nextafter(nearest, 0.0f);
}

std::uint16_t RoundToF16(double sum) {
  // The sum has at most 31 significant bits: rounding to f32 first, toward zero with the
  // lost bits marked in the last place, keeps the second rounding correct.
  if (std::isnan(sum)) return 0x7fff;
  float truncated = RoundToF32(sum);
  if (static_cast<double>(truncated) != sum && std::isfinite(truncated)) {
    truncated = FloatOf(BitsOf(truncated) | 1u);
  }
  return ToF16(truncated);
}

}  // namespace gemmd::emulator
