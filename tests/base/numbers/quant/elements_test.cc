#include "base/numbers/quant/elements.h"

#include <cmath>
#include <limits>
#include <random>

#include "base/numbers/fp8.h"
#include "gtest/gtest.h"
#include "tests/base/numbers/quant/element_tables.h"
#include "tests/base/numbers/quant/exact_compare.h"

namespace gemmd {
namespace {

using testing::ElementCase;

constexpr Rounding kNearest;

std::uint32_t Nearest(DataType type, double value) {
  return EncodeElement(type, value, 0, kNearest, 0);
}

class FloatElements : public ::testing::TestWithParam<ElementCase> {};

TEST_P(FloatElements, EveryCodeIsItsDefinitionAndComesBack) {
  const ElementCase& element = GetParam();
  const std::vector<double> magnitudes = testing::FiniteValues(element);
  const int half = element.codes() / 2;
  for (int code = 0; code < element.codes(); ++code) {
    const double value = DecodeElement(element.type, static_cast<std::uint32_t>(code));
    const int magnitude = code % half;
    if (magnitude < element.finite_codes()) {
      ASSERT_EQ(std::abs(value), magnitudes[static_cast<std::size_t>(magnitude)]) << code;
      ASSERT_EQ(std::signbit(value), code >= half) << code;
      ASSERT_EQ(Nearest(element.type, value), static_cast<std::uint32_t>(code));
    } else if (magnitude < element.finite_codes() + element.infinities) {
      ASSERT_TRUE(std::isinf(value)) << code;
      ASSERT_EQ(std::signbit(value), code >= half) << code;
    } else {
      ASSERT_TRUE(std::isnan(value)) << code;
    }
  }
}

TEST_P(FloatElements, RoundsToNearestWithTiesToEven) {
  const ElementCase& element = GetParam();
  const std::vector<double> values = testing::FiniteValues(element);
  const auto sign = static_cast<std::uint32_t>(element.codes() / 2);
  for (std::uint32_t low = 0; low + 1 < values.size(); ++low) {
    const double middle = (values[low] + values[low + 1]) / 2;
    const std::uint32_t even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(Nearest(element.type, middle), even);
    ASSERT_EQ(Nearest(element.type, -middle), even | sign);
    ASSERT_EQ(Nearest(element.type, std::nextafter(middle, 0.0)), low);
    ASSERT_EQ(Nearest(element.type, std::nextafter(middle, 1e300)), low + 1);
  }
}

TEST_P(FloatElements, SaturatesAndHasItsNan) {
  const ElementCase& element = GetParam();
  const auto largest = static_cast<std::uint32_t>(element.finite_codes() - 1);
  const auto sign = static_cast<std::uint32_t>(element.codes() / 2);
  for (const double value : {testing::FiniteValues(element).back() * 1.001, 1e300, HUGE_VAL}) {
    EXPECT_EQ(Nearest(element.type, value), largest);
    EXPECT_EQ(Nearest(element.type, -value), largest | sign);
    EXPECT_EQ(EncodeElement(element.type, value, 0, {true, 3}, 5), largest);
  }
  EXPECT_EQ(Nearest(element.type, 5e-324), 0u);
  EXPECT_EQ(Nearest(element.type, -0.0), sign);
  const std::uint32_t nan = Nearest(element.type, std::nan(""));
  if (element.nans > 0) {
    EXPECT_TRUE(std::isnan(DecodeElement(element.type, nan)));
  } else {
    EXPECT_EQ(nan, largest);
    EXPECT_EQ(Nearest(element.type, -std::nan("")), largest);
  }
}

TEST_P(FloatElements, GoesUpWhereTheRandomBitsAreBelowTheFraction) {
  const ElementCase& element = GetParam();
  const std::vector<double> values = testing::FiniteValues(element);
  const FloatFormat& format = *FormatOf(element.type);
  for (std::uint32_t low = 0; low + 1 < values.size(); ++low) {
    const double distance = values[low + 1] - values[low];
    for (const double fraction : {0x1p-32, 0.25, 0.5, 0.75, 1 - 0x1p-32}) {
      const double value = values[low] + fraction * distance;
      const auto threshold = static_cast<std::uint32_t>(fraction * 0x1p32);
      ASSERT_EQ(EncodeStochastic(format, value, threshold - 1), low + 1);
      ASSERT_EQ(EncodeStochastic(format, value, threshold), low);
      ASSERT_EQ(EncodeStochastic(format, -value, threshold - 1) ^ format.sign_bit(), low + 1);
    }
    ASSERT_EQ(EncodeStochastic(format, values[low], 0), low);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FloatElements, ::testing::ValuesIn(testing::FloatCases()),
                         [](const auto& info) { return std::string(Name(info.param.type)); });

class TableElements : public ::testing::TestWithParam<DataType> {};

TEST_P(TableElements, EveryCodeIsItsTables) {
  const auto& table = testing::TableValues(GetParam());
  for (const testing::TableValue& each : table) {
    const auto code = static_cast<std::uint32_t>(each.code);
    EXPECT_EQ(DecodeElement(GetParam(), code), each.value) << code;
    EXPECT_EQ(DecodeElement(GetParam(), code | 0xf0u), each.value) << code;
    EXPECT_EQ(Nearest(GetParam(), each.value), code);
    EXPECT_EQ(EncodeElement(GetParam(), each.value, 0, {true, 3}, 5), code);
  }
  EXPECT_EQ(LowestElement(GetParam()), table.front().value);
  EXPECT_EQ(LargestElement(GetParam()), table.back().value);
}

TEST_P(TableElements, RoundsToNearestWithTiesToEvenAndSaturates) {
  const auto& table = testing::TableValues(GetParam());
  for (std::size_t i = 0; i + 1 < table.size(); ++i) {
    const double middle = (table[i].value + table[i + 1].value) / 2;
    const auto below = static_cast<std::uint32_t>(table[i].code);
    const auto above = static_cast<std::uint32_t>(table[i + 1].code);
    EXPECT_EQ(Nearest(GetParam(), middle), below % 2 == 0 ? below : above) << middle;
    EXPECT_EQ(Nearest(GetParam(), std::nextafter(middle, -HUGE_VAL)), below) << middle;
    EXPECT_EQ(Nearest(GetParam(), std::nextafter(middle, HUGE_VAL)), above) << middle;
  }
  const auto lowest = static_cast<std::uint32_t>(table.front().code);
  const auto largest = static_cast<std::uint32_t>(table.back().code);
  for (const double value : {2 * table.back().value, HUGE_VAL}) {
    EXPECT_EQ(Nearest(GetParam(), value), largest);
    EXPECT_EQ(Nearest(GetParam(), -value), lowest);
    EXPECT_EQ(EncodeElement(GetParam(), value, 0, {true, 3}, 5), largest);
  }
  EXPECT_EQ(Nearest(GetParam(), std::nan("")), largest);
}

TEST_P(TableElements, GoesUpAsOftenAsTheFractionSays) {
  const auto& table = testing::TableValues(GetParam());
  constexpr int kDraws = 4000;
  for (std::size_t i = 0; i + 1 < table.size(); ++i) {
    const double value = table[i].value + 0.25 * (table[i + 1].value - table[i].value);
    int ups = 0;
    for (std::uint64_t index = 0; index < kDraws; ++index) {
      const std::uint32_t code = EncodeElement(GetParam(), value, 0, {true, 9}, index);
      ups += code == static_cast<std::uint32_t>(table[i + 1].code) ? 1 : 0;
      ASSERT_TRUE(code == static_cast<std::uint32_t>(table[i].code) ||
                  code == static_cast<std::uint32_t>(table[i + 1].code));
    }
    EXPECT_NEAR(ups, kDraws / 4.0, 150) << value;  // more than five deviations
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TableElements,
                         ::testing::Values(DataType::kNf4, DataType::kBnbFp4, DataType::kIq4Nl),
                         [](const auto& info) { return std::string(Name(info.param)); });

// QLoRA's definition: quantiles of the normal distribution, eight below 0 and seven above it.
TEST(Elements, Nf4IsMadeOfQuantiles) {
  const auto quantile = [](double probability) {
    double low = -10;
    double high = 10;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (std::erfc(-middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
    }
    return low;
  };
  constexpr double kOuter = 0.9677083;
  const double largest = quantile(kOuter);
  for (int code = 0; code < 16; ++code) {
    // There are 9 points from kOuter to a half, and 8, the last of which is 0.
    const double probability = code < 7 ? 1 - (kOuter + (0.5 - kOuter) * code / 7)
                                        : kOuter + (0.5 - kOuter) * (15 - code) / 8;
    EXPECT_NEAR(DecodeElement(DataType::kNf4, static_cast<std::uint32_t>(code)),
                quantile(probability) / largest, 1e-6)
        << code;
  }
}

TEST(Elements, BinaryThirtyTwoIsTheProcessors) {
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) {
    const double value = std::ldexp(std::normal_distribution<double>()(random),
                                    static_cast<int>(random() % 300) - 170);
    const auto rounded = static_cast<float>(value);
    if (std::isinf(rounded)) continue;
    const double decoded = DecodeElement(DataType::kF32, Nearest(DataType::kF32, value));
    ASSERT_EQ(decoded, rounded) << value;
  }
}

TEST(Elements, QuickTablesOfFp8Agree) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const double e4m3 = DecodeElement(DataType::kFp8E4M3, byte);
    const double e5m2 = DecodeElement(DataType::kFp8E5M2, byte);
    if (!std::isnan(e4m3)) {
      EXPECT_EQ(FromFp8E4M3(byte), e4m3);
    }
    if (!std::isnan(e5m2)) {
      EXPECT_EQ(FromFp8E5M2(byte), e5m2);
    }
  }
  std::mt19937 random(4);
  for (int i = 0; i < 100000; ++i) {
    const auto value = static_cast<float>(std::ldexp(std::normal_distribution<double>()(random),
                                                     static_cast<int>(random() % 40) - 22));
    ASSERT_EQ(ToFp8E4M3(value), Nearest(DataType::kFp8E4M3, value)) << value;
    ASSERT_EQ(ToFp8E5M2(value), Nearest(DataType::kFp8E5M2, value)) << value;
  }
}

TEST(Elements, EveryE8M0CodeIsAPowerOfTwoOrNan) {
  double power = std::pow(2.0, -127);
  for (int code = 0; code < 255; ++code, power *= 2) {
    EXPECT_EQ(DecodeElement(DataType::kE8M0, static_cast<std::uint32_t>(code)), power);
  }
  EXPECT_TRUE(std::isnan(DecodeElement(DataType::kE8M0, 255)));
}

struct IntegerCase {
  DataType type;
  int bits;
  int lowest;
};

TEST(Elements, EveryIntegerCodeIsTwosComplementOrBinary) {
  for (const IntegerCase& each :
       {IntegerCase{DataType::kInt8, 8, -128}, IntegerCase{DataType::kUint8, 8, 0},
        IntegerCase{DataType::kInt4, 4, -8}, IntegerCase{DataType::kUint4, 4, 0}}) {
    const int codes = 1 << each.bits;
    for (int i = 0; i < codes; ++i) {
      const int value = each.lowest + i;
      const auto code = static_cast<std::uint32_t>((value + codes) % codes);
      EXPECT_EQ(DecodeElement(each.type, code), value);
      EXPECT_EQ(Nearest(each.type, value), code);
      EXPECT_EQ(Nearest(each.type, value + 0.5),
                Nearest(each.type, value % 2 == 0 ? value : value + 1));
      EXPECT_EQ(Nearest(each.type, std::nextafter(value + 0.5, -1e9)), code);
    }
    const int highest = each.lowest + codes - 1;
    EXPECT_EQ(DecodeElement(each.type, Nearest(each.type, 1e300)), highest);
    EXPECT_EQ(DecodeElement(each.type, Nearest(each.type, -HUGE_VAL)), each.lowest);
    EXPECT_EQ(DecodeElement(each.type, EncodeElement(each.type, std::nan(""), 3, kNearest, 0)), 3);
    EXPECT_EQ(DecodeElement(each.type, EncodeElement(each.type, -1.25, 3, kNearest, 0)), 2);
  }
}

TEST(Elements, ConstantsOfTheStandards) {
  EXPECT_EQ(LargestElement(DataType::kFp8E4M3), 448);
  EXPECT_EQ(LargestElement(DataType::kFp8E5M2), 57344);
  EXPECT_EQ(LargestElement(DataType::kFp6E3M2), 28);
  EXPECT_EQ(LargestElement(DataType::kFp6E2M3), 7.5);
  EXPECT_EQ(LargestElement(DataType::kFp4E2M1), 6);
  EXPECT_EQ(LargestElement(DataType::kInt8), 127);
  EXPECT_EQ(LargestElement(DataType::kInt4), 7);
}

// The first outputs of SplitMix64 for the seed 1234567, as published with the generator's ports.
TEST(RandomBits, AreSplitMix64s) {
  constexpr std::uint64_t kOutputs[] = {6457827717110365317u, 3203168211198807973u,
                                        9817491932198370423u, 4593380528125082431u,
                                        16408922859458223821u};
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(RandomBits(1234567, i), static_cast<std::uint32_t>(kOutputs[i] >> 32));
  }
}

TEST(RandomBits, RoundToTheMeanOfManyElements) {
  constexpr int kDraws = 100000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    sum +=
        DecodeElement(DataType::kInt8, EncodeElement(DataType::kInt8, -2.3, 0, {true, 9}, index));
  }
  // Six deviations of the mean: each draw has one of 0.46.
  EXPECT_NEAR(sum / kDraws, -2.3, 6 * 0.46 / std::sqrt(kDraws));
}

}  // namespace
}  // namespace gemmd
