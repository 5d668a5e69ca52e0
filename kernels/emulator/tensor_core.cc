#include "kernels/emulator/tensor_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/float_bits.h"

namespace gemmd::emulator {
namespace {

constexpr int kFractionBits = 25;
// Of a zero: below every sum of two exponents that takes part.
constexpr std::int32_t kNoExponent = -100000;
constexpr std::uint32_t kCanonicalNan = 0x7fffffffu;

double PowerOfTwo(int exponent) {
  const std::uint64_t bits = static_cast<std::uint64_t>(1023 + exponent) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::int32_t ExponentOf(double value) {
  if (value == 0) return kNoExponent;
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::int32_t>((bits >> 52) & 0x7ff) - 1023;
}

double SpecialSum(double addend, const Factors& a, const Factors& b) {
  double sum = addend;
  for (int k = 0; k < kBlockProducts; ++k) sum += a.value[k] * b.value[k];
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

void Factors::Set(HalfFormat format, int k, std::uint16_t bits) {
  const bool is_f16 = format == HalfFormat::kF16;
  const std::int32_t bias = is_f16 ? 15 : 127;
  const std::int32_t all_ones = 2 * bias + 1;
  const std::int32_t field = is_f16 ? (bits >> 10) & 31 : (bits >> 7) & 255;
  value[k] = Widen(format, bits);
  exponent[k] = (bits & 0x7fff) == 0 ? kNoExponent : std::max(field, 1) - bias;
  finite = finite && field != all_ones;
}

void Factors::SetTf32(int k, std::uint32_t bits) {
  const std::uint32_t kept = bits & ~0x1fffu;
  const auto field = static_cast<std::int32_t>((kept >> 23) & 255);
  value[k] = FloatOf(kept);
  exponent[k] = (kept & 0x7fffffffu) == 0 ? kNoExponent : std::max(field, 1) - 127;
  finite = finite && field != 255;
}

double AlignedSum(double addend, const Factors& a, const Factors& b) {
  if (!a.finite || !b.finite || !std::isfinite(addend)) return SpecialSum(addend, a, b);
  std::int32_t largest = ExponentOf(addend);
  for (int k = 0; k < kBlockProducts; ++k) {
    largest = std::max(largest, a.exponent[k] + b.exponent[k]);
  }
  if (largest < kNoExponent / 2) return 0;
  const double scale = PowerOfTwo(kFractionBits - largest);
  // A scaled product is below 2^27 and the scaled addend below 2^26, so that 32-bit
  // conversions, which truncate, hold them.
  double sum = static_cast<std::int32_t>(addend * scale);
  for (int k = 0; k < kBlockProducts; ++k) {
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
