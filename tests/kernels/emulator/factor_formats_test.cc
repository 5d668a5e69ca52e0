// Factors of 8, 16 and 32 bits: every code's value and exponent, blocks of their lengths, scales.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "base/numbers/quant/small_float.h"
#include "kernels/emulator/arithmetic/tensor_core.h"

namespace gemmd::testing {
namespace {

using emulator::FactorFormat;
using emulator::Factors;

double ValueOf(FactorFormat format, std::uint32_t bits) {
  Factors factors = {};
  factors.Set(format, 0, bits);
  return factors.value[0];
}

void ExpectSame(double value, double expected, std::uint32_t bits) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << bits;
    return;
  }
  EXPECT_EQ(value, expected) << bits;
  EXPECT_EQ(std::signbit(value), std::signbit(expected)) << bits;
}

TEST(FactorFormats, EveryCodeHasItsValue) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    ExpectSame(ValueOf(FactorFormat::kE4m3, code), FromFp8E4M3(byte), code);
    ExpectSame(ValueOf(FactorFormat::kE5m2, code), FromFp8E5M2(byte), code);
  }
  for (std::uint32_t code = 0; code < 64; ++code) {
    ExpectSame(ValueOf(FactorFormat::kE2m3, code), DecodeFloat(kE2M3, code), code);
    ExpectSame(ValueOf(FactorFormat::kE3m2, code), DecodeFloat(kE3M2, code), code);
  }
  for (std::uint32_t code = 0; code < 16; ++code) {
    ExpectSame(ValueOf(FactorFormat::kE2m1, code), DecodeFloat(kE2M1, code), code);
  }
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    ExpectSame(ValueOf(FactorFormat::kF16, code), FromF16(half), code);
    ExpectSame(ValueOf(FactorFormat::kBf16, code), FromBf16(half), code);
    // The lowest 13 bits of a tf32 operand do not count.
    const std::uint32_t word = code << 16 | 0x2000;
    ExpectSame(ValueOf(FactorFormat::kTf32, word | 0x1fff), FloatOf(word), word);
  }
}

TEST(FactorFormats, ExponentsAreNotNormalised) {
  Factors factors = {};
  const auto exponent = [&](FactorFormat format, std::uint32_t bits) {
    factors.Set(format, 0, bits);
    return factors.exponent[0];
  };
  EXPECT_EQ(exponent(FactorFormat::kE4m3, 0x38), 0);   // 1
  EXPECT_EQ(exponent(FactorFormat::kE4m3, 0x01), -6);  // the smallest subnormal, 2^-9
  EXPECT_EQ(exponent(FactorFormat::kE4m3, 0x7e), 8);   // 448
  EXPECT_EQ(exponent(FactorFormat::kE5m2, 0x01), -14);
  EXPECT_EQ(exponent(FactorFormat::kF16, 0x0001), -14);
  EXPECT_EQ(exponent(FactorFormat::kBf16, 0x0001), -126);
  EXPECT_TRUE(factors.finite);
  factors.Set(FactorFormat::kE4m3, 0, 0x78);  // a number, where e5m2 and IEEE have infinity
  EXPECT_TRUE(factors.finite);
  factors.Set(FactorFormat::kE4m3, 0, 0xff);
  EXPECT_FALSE(factors.finite);
}

Factors Block(FactorFormat format, std::uint32_t bits) {
  Factors factors = {};
  factors.count = emulator::BlockProducts(emulator::FactorBytes(format));
  for (int k = 0; k < factors.count; ++k) factors.Set(format, k, bits);
  return factors;
}

TEST(FactorFormats, ABlockIs32BytesOfK) {
  const Factors bytes = Block(FactorFormat::kE4m3, 0x38);
  const Factors halves = Block(FactorFormat::kF16, 0x3c00);
  const Factors words = Block(FactorFormat::kTf32, 0x3f800000);
  EXPECT_EQ(emulator::AlignedSum(0, bytes, bytes), 32);
  EXPECT_EQ(emulator::AlignedSum(0, halves, halves), 16);
  EXPECT_EQ(emulator::AlignedSum(0, words, words), 8);
}

TEST(FactorFormats, AScaleCountsAsExponent) {
  Factors a = Block(FactorFormat::kE4m3, 0x38);
  const Factors b = a;
  a.Scale(127 + 20);
  EXPECT_EQ(a.exponent[0], 20);
  EXPECT_EQ(emulator::AlignedSum(1, a, b), 32 * 0x1p20 + 1);
  EXPECT_EQ(emulator::AlignedSum(0x1p-6, a, b), 32 * 0x1p20);  // 26 bits below the largest
  a.Scale(127 - 20);
  EXPECT_EQ(emulator::AlignedSum(1, a, b), 33);
  a.Scale(0xff);
  EXPECT_TRUE(std::isnan(emulator::AlignedSum(1, a, b)));
}

}  // namespace
}  // namespace gemmd::testing
