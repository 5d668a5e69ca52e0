// Conversions between binary32 and the 16-bit floats, as bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace gemmd {

inline std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float FloatOf(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float FromBf16(std::uint16_t bits) { return FloatOf(std::uint32_t{bits} << 16); }

// Round to nearest, ties to even; NaN stays NaN, made quiet.
inline std::uint16_t ToBf16(float value) {
  const std::uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Exact. The magnitude is shifted into binary32's fields and its exponent corrected
// by a multiplication with 2^112, which also normalises subnormals.
inline float FromF16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return FloatOf(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  return FloatOf(sign | BitsOf(FloatOf(magnitude << 13) * 0x1p112f));
}

// Round to nearest, ties to even; from 65520 up infinity; NaN stays NaN, made quiet.
inline std::uint16_t ToF16(float value) {
  const std::uint32_t bits = BitsOf(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520: halfway between 65504 and 2^16
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is a multiple of 2^-24, which is the last place of a
    // binary32 in [0.5, 1): adding 0.5 makes the adder round.
    half = BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f);
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace gemmd
