#include "base/numbers/quant/small_float.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/base/casts.h"

namespace gemmd {
namespace {

// The exponent and the powers of two of binary64, by its bits: std::ilogb and std::ldexp are calls,
// and encoders need one each for every element.
constexpr int kDoubleFractionBits = 52;
constexpr int kDoubleBias = 1023;

// Returns the exponent of a magnitude; -1023 for a subnormal one, which is less than any format's
// smallest.
int ExponentOf(double magnitude) {
  const auto bits = absl::bit_cast<std::uint64_t>(magnitude);
  return static_cast<int>(bits >> kDoubleFractionBits) - kDoubleBias;
}

// REQUIRES: -1022 <= exponent <= 1023.
double PowerOfTwo(int exponent) {
  return absl::bit_cast<double>(static_cast<std::uint64_t>(exponent + kDoubleBias)
                                << kDoubleFractionBits);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Round(multiple) makes an integer of a magnitude in units of the last place.
template <typename Round>
std::uint32_t Encode(const FloatFormat& format, double value, const Round& round) {
  if (std::isnan(value)) {
    if (format.top == FloatFormat::Top::kFinite) return format.largest_code();
    return format.nan_code() | (std::signbit(value) ? format.sign_bit() : 0);
  }
  const std::uint32_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double magnitude = std::abs(value);
  if (magnitude == 0) return sign;
  if (magnitude >= LargestOf(format)) return sign | format.largest_code();
  const int smallest_exponent = 1 - format.bias;
  const int exponent = std::max(ExponentOf(magnitude), smallest_exponent);
  // Exact. The multiple has at most one bit more than the significand. The largest one carries into
  // the exponent field, as it should.
  const double multiple = round(magnitude * PowerOfTwo(format.fraction_bits - exponent));
  const auto exponent_field = static_cast<std::uint32_t>(exponent - smallest_exponent);
  const std::uint32_t code =
      (exponent_field << format.fraction_bits) + static_cast<std::uint32_t>(multiple);
  return sign | std::min(code, format.largest_code());
}

}  // namespace

double DecodeFloat(const FloatFormat& format, std::uint32_t code) {
  const double sign = (code & format.sign_bit()) != 0 ? -1 : 1;
  const std::uint32_t magnitude = code & (format.sign_bit() - 1);
  if (magnitude > format.largest_code()) {
    const bool is_infinity =
        format.top == FloatFormat::Top::kInfinityAndNans && magnitude == format.exponent_mask();
    return std::copysign(is_infinity ? kInfinity : kNan, sign);
  }
  const std::uint32_t hidden_bit = 1u << format.fraction_bits;
  const int field = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint32_t fraction = magnitude & (hidden_bit - 1);
  return sign * static_cast<double>(field == 0 ? fraction : fraction | hidden_bit) *
         PowerOfTwo(std::max(field, 1) - format.bias - format.fraction_bits);
}

double LargestOf(const FloatFormat& format) { return DecodeFloat(format, format.largest_code()); }

double RoundingLimitOf(const FloatFormat& format) {
  const double largest = LargestOf(format);
  return largest + PowerOfTwo(ExponentOf(largest) - format.fraction_bits - 1);
}

std::uint32_t EncodeNearest(const FloatFormat& format, double value) {
  return Encode(format, value, [](double multiple) { return std::nearbyint(multiple); });
}

std::uint32_t EncodeStochastic(const FloatFormat& format, double value, std::uint32_t random_bits) {
  return Encode(format, value, [random_bits](double multiple) {
    const double below = std::floor(multiple);
    return below + ((multiple - below) * 0x1p32 > random_bits ? 1 : 0);
  });
}

double DecodeE8M0(std::uint8_t code) { return code == kE8M0Nan ? kNan : PowerOfTwo(code - 127); }

}  // namespace gemmd
