#include "base/numbers/float_bits.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// The value of a binary16 by its definition, IEEE 754-2019 section 3.4.
double ValueOfF16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(F16, EveryValueWidensExactlyAndComesBack) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double expected = ValueOfF16(bits);
    const float wide = FromF16(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide));
      EXPECT_TRUE(std::isnan(ValueOfF16(ToF16(wide))));
    } else {
      ASSERT_EQ(wide, expected) << i;
      ASSERT_EQ(ToF16(wide), bits);
    }
  }
}

TEST(F16, RoundsToNearestWithTiesToEven) {
  for (std::uint32_t i = 0; i < 0x7bff; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const double below = ValueOfF16(low);
    const double above = ValueOfF16(low + 1);
    const auto middle = static_cast<float>((below + above) / 2);
    const std::uint16_t even = (low & 1) == 0 ? low : low + 1;
    ASSERT_EQ(ToF16(middle), even);
    ASSERT_EQ(ToF16(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(ToF16(std::nextafter(middle, 1e9f)), low + 1);
    ASSERT_EQ(ToF16(-middle), even | 0x8000);
  }
  EXPECT_EQ(ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(ToF16(INFINITY), 0x7c00);
  EXPECT_EQ(ToF16(-1e30f), 0xfc00);
  EXPECT_EQ(ToF16(-0.0f), 0x8000);
}

TEST(Bf16, EveryValueWidensExactlyAndComesBack) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float wide = FromBf16(bits);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(FromBf16(ToBf16(wide))));
    } else {
      ASSERT_EQ(ToBf16(wide), bits);
    }
  }
}

TEST(Bf16, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(ToBf16(FloatOf(0x3f808000)), 0x3f80);  // tie, even below
  EXPECT_EQ(ToBf16(FloatOf(0x3f818000)), 0x3f82);  // tie, even above
  EXPECT_EQ(ToBf16(FloatOf(0x3f808001)), 0x3f81);
  EXPECT_EQ(ToBf16(FloatOf(0x3f807fff)), 0x3f80);
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()), 0x7f80);  // rounds up to infinity
}

}  // namespace
}  // namespace gemmd
