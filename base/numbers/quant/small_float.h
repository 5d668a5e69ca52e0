// Floating-point formats of at most 32 bits as values, and the conversions that all of them share.
//
// A code is a sign bit above `exponent_bits` above `fraction_bits`. With exponent field E and
// fraction field F its magnitude is 2^(E - bias) * (1 + F / 2^fraction_bits), or, where E is 0,
// 2^(1 - bias) * F / 2^fraction_bits. The formats give the largest E different meanings:
//
//             exponent  fraction  bias  largest      smallest  largest exponent
//   E4M3      4         3         7     448          2^-9      NaN where F is 7
//   E5M2      5         2         15    57344        2^-16     infinity where F is 0, else NaN
//   E3M2      3         2         3     28           2^-4      finite
//   E2M3      2         3         1     7.5          2^-3      finite
//   E2M1      2         1         1     6            2^-1      finite
//   binary16  5         10        15    65504        2^-24     as E5M2
//   bfloat16  8         7         127   about 2^128  2^-133    as E5M2
//   binary32  8         23        127   about 2^128  2^-149    as E5M2
//
// Sources: E4M3 and E5M2, "OCP 8-bit Floating Point Specification (OFP8)", revision 1.0, 2023,
// table 1; E3M2, E2M3 and E2M1, "OCP Microscaling Formats (MX) Specification", version 1.0, 2023,
// section 5.3; binary16 and binary32, IEEE 754-2019.
#pragma once

#include <cstdint>

namespace gemmd {

struct FloatFormat {
  // The meaning of codes with the largest exponent field.
  enum class Top : std::uint8_t { kFinite, kOneNan, kInfinityAndNans };

  int exponent_bits;
  int fraction_bits;
  int bias;
  Top top;

  constexpr std::uint32_t sign_bit() const { return 1u << (exponent_bits + fraction_bits); }
  constexpr std::uint32_t exponent_mask() const {
    return ((1u << exponent_bits) - 1) << fraction_bits;
  }
  // The codes, without a sign, of the largest finite value and of NaN. There is no NaN in
  // formats whose codes are all finite.
  constexpr std::uint32_t largest_code() const {
    if (top == Top::kFinite) return sign_bit() - 1;
    return top == Top::kOneNan ? sign_bit() - 2 : exponent_mask() - 1;
  }
  constexpr std::uint32_t nan_code() const {
    return top == Top::kInfinityAndNans ? exponent_mask() | (1u << (fraction_bits - 1))
                                        : sign_bit() - 1;
  }
};

inline constexpr FloatFormat kE4M3 = {4, 3, 7, FloatFormat::Top::kOneNan};
inline constexpr FloatFormat kE5M2 = {5, 2, 15, FloatFormat::Top::kInfinityAndNans};
inline constexpr FloatFormat kE3M2 = {3, 2, 3, FloatFormat::Top::kFinite};
inline constexpr FloatFormat kE2M3 = {2, 3, 1, FloatFormat::Top::kFinite};
inline constexpr FloatFormat kE2M1 = {2, 1, 1, FloatFormat::Top::kFinite};
inline constexpr FloatFormat kBinary16 = {5, 10, 15, FloatFormat::Top::kInfinityAndNans};
inline constexpr FloatFormat kBfloat16 = {8, 7, 127, FloatFormat::Top::kInfinityAndNans};
inline constexpr FloatFormat kBinary32 = {8, 23, 127, FloatFormat::Top::kInfinityAndNans};

// Exact. Bits above the sign are ignored.
double DecodeFloat(const FloatFormat& format, std::uint32_t code);

// The largest finite value.
double LargestOf(const FloatFormat& format);

// The least magnitude that an exponent without a limit would round past the largest finite value:
// half a unit in its last place above it.
double RoundingLimitOf(const FloatFormat& format);

// Both encoders saturate: what rounds to more than the largest finite value becomes that value,
// infinities included. The sign stays, that of zero too. NaN becomes nan_code() with its sign; in a
// format without one it becomes the largest value, positive, as PTX's cvt.satfinite has it
// (PTX ISA, "cvt", .e2m1x2, .e2m3x2 and .e3m2x2).

// Rounds to nearest, ties to the even code.
std::uint32_t EncodeNearest(const FloatFormat& format, double value);

// Rounds the magnitude up with the probability that is its distance from the value below, in units
// of the distance between both neighbours, rounded up to a multiple of 2^-32: up where that
// fraction is more than random_bits / 2^32. A value of the format stays what it is.
std::uint32_t EncodeStochastic(const FloatFormat& format, double value, std::uint32_t random_bits);

// E8M0, the scale of the MX formats: 2^(code - 127), and 0xFF is NaN. There is no zero, no sign.
// Source: OCP MX, version 1.0, section 5.4.
inline constexpr std::uint8_t kE8M0Nan = 0xff;
double DecodeE8M0(std::uint8_t code);

}  // namespace gemmd
