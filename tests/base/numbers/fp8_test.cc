#include "base/numbers/fp8.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

struct Format {
  const char* name;
  int fraction_bits;
  int bias;
  bool has_infinity;
  std::uint8_t largest;
  float (*from)(std::uint8_t);
  std::uint8_t (*to)(float);
};

constexpr Format kE4M3 = {"E4M3", 3, 7, false, 0x7e, FromFp8E4M3, ToFp8E4M3};
constexpr Format kE5M2 = {"E5M2", 2, 15, true, 0x7b, FromFp8E5M2, ToFp8E5M2};

// The value of a code by the definition of OFP8.
double ValueOf(const Format& format, int code) {
  const double sign = code >= 128 ? -1 : 1;
  const int fraction = code % (1 << format.fraction_bits);
  const int exponent = code % 128 >> format.fraction_bits;
  const int top_exponent = 127 >> format.fraction_bits;
  if (exponent == top_exponent && format.has_infinity) {
    return fraction == 0 ? sign * INFINITY : std::nan("");
  }
  if (code % 128 == 127) return std::nan("");
  const int unit = 1 - format.bias - format.fraction_bits;
  if (exponent == 0) return sign * std::ldexp(fraction, unit);
  return sign * std::ldexp((1 << format.fraction_bits) + fraction, unit + exponent - 1);
}

// The code nearest to a finite value, by looking at every finite one.
std::uint8_t Nearest(const Format& format, double value) {
  int best = 0;
  for (int code = 0; code <= format.largest; ++code) {
    const double distance = std::abs(ValueOf(format, code) - std::abs(value));
    const double best_distance = std::abs(ValueOf(format, best) - std::abs(value));
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

class Fp8 : public ::testing::TestWithParam<Format> {};

TEST_P(Fp8, EveryCodeWidensExactlyAndComesBack) {
  const Format& format = GetParam();
  for (int code = 0; code < 256; ++code) {
    const double expected = ValueOf(format, code);
    const float wide = format.from(static_cast<std::uint8_t>(code));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide)) << code;
      EXPECT_TRUE(std::isnan(ValueOf(format, format.to(wide)))) << code;
    } else if (std::isinf(expected)) {
      EXPECT_EQ(wide, expected) << code;
      EXPECT_EQ(format.to(wide), format.largest | (code & 0x80)) << code;
    } else {
      ASSERT_EQ(wide, expected) << code;
      ASSERT_EQ(std::signbit(wide), code >= 128) << code;
      ASSERT_EQ(format.to(wide), code);
    }
  }
}

TEST_P(Fp8, RoundsToNearestWithTiesToEven) {
  const Format& format = GetParam();
  for (int low = 0; low < format.largest; ++low) {
    const auto middle = static_cast<float>((ValueOf(format, low) + ValueOf(format, low + 1)) / 2);
    const int even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(format.to(middle), even);
    ASSERT_EQ(format.to(std::nextafter(middle, 0.0f)), low);
    ASSERT_EQ(format.to(std::nextafter(middle, 1e9f)), low + 1);
    ASSERT_EQ(format.to(-middle), even | 0x80);
  }
}

TEST_P(Fp8, GivesTheNearestOfAllCodesForAnyFloat) {
  const Format& format = GetParam();
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t exponent = 127 - 20 + random() % 40;
    const std::uint32_t bits = (random() & 0x807fffffu) | exponent << 23;
    float value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    ASSERT_EQ(format.to(value), Nearest(format, value)) << value;
  }
}

TEST_P(Fp8, SaturatesAndKeepsNan) {
  const Format& format = GetParam();
  constexpr float kMax = std::numeric_limits<float>::max();
  const int negative = format.largest | 0x80;
  EXPECT_EQ(format.to(kMax), format.largest);
  EXPECT_EQ(format.to(INFINITY), format.largest);
  EXPECT_EQ(format.to(-kMax), negative);
  EXPECT_EQ(format.to(-INFINITY), negative);
  EXPECT_TRUE(std::isnan(format.from(format.to(std::nanf("")))));
  EXPECT_TRUE(std::isnan(format.from(format.to(-std::nanf("")))));
  EXPECT_EQ(format.to(0.0f), 0);
  EXPECT_EQ(format.to(-0.0f), 0x80);
  EXPECT_EQ(format.to(std::numeric_limits<float>::denorm_min()), 0);
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8, ::testing::Values(kE4M3, kE5M2),
                         [](const auto& info) { return info.param.name; });

// The limits that OFP8 lists.
TEST(Fp8Limits, AreTheSpecifications) {
  EXPECT_EQ(FromFp8E4M3(0x7e), kMaxFp8E4M3);
  EXPECT_EQ(FromFp8E4M3(0x08), 0x1p-6f);
  EXPECT_EQ(FromFp8E4M3(0x01), 0x1p-9f);
  EXPECT_EQ(FromFp8E5M2(0x7b), kMaxFp8E5M2);
  EXPECT_EQ(FromFp8E5M2(0x04), 0x1p-14f);
  EXPECT_EQ(FromFp8E5M2(0x01), 0x1p-16f);
  EXPECT_EQ(FromFp8E5M2(0x7c), INFINITY);
}

}  // namespace
}  // namespace gemmd
