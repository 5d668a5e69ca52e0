#include "client/weights/fnuz.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/client/weights/expected_matrix.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Little;
using ::testing::HasSubstr;

struct Type {
  const char* name;
  int fraction_bits;
  int bias;
  const char* form;
};
constexpr Type kTypes[] = {{"F8_E4M3FNUZ", 3, 8, "fp8-e4m3-1x128"},
                           {"F8_E5M2FNUZ", 2, 16, "fp8-e5m2-1x128"}};

// By the definition of IEEE 754 with this bias, but that no exponent is kept for infinity.
double Value(const Type& type, std::uint32_t code) {
  if (code == 0x80) return std::nan("");
  const double sign = code < 0x80 ? 1 : -1;
  const int exponent = static_cast<int>((code & 0x7f) >> type.fraction_bits);
  const int fraction = static_cast<int>(code & ((1U << type.fraction_bits) - 1));
  const double significand = std::ldexp(fraction, -type.fraction_bits) + (exponent == 0 ? 0 : 1);
  return sign * std::ldexp(significand, std::max(exponent, 1) - type.bias);
}

std::string CodesWithout(const Type& type, double least, double most) {
  std::string codes;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const double magnitude = std::abs(Value(type, code));
    const bool is_zero = code == 0;
    if (is_zero || (magnitude >= least && magnitude <= most)) codes += static_cast<char>(code);
  }
  while (codes.size() < 256) codes += codes[codes.size() % 7];
  return codes;
}

std::vector<WeightTensor> Layers(const Type& type, const std::string& codes, float scale) {
  return CombineLayers({Tensor("w", type.name, {2, 128}, codes),
                        Tensor("w_scale", "F32", {1}, Little(BitsOf(scale), 4))},
                       {});
}

TEST(FnuzTest, WithoutScalesItIsF16OfTheSameValues) {
  for (const Type& type : kTypes) {
    std::string codes;
    for (int code = 0; code < 256; ++code) codes += static_cast<char>(code);
    const WeightTensor tensor = Tensor("w", type.name, {16, 16}, codes);
    const auto form = FormOf(tensor);
    ASSERT_TRUE(form.ok()) << form.status();
    EXPECT_EQ(form->name, "f16");
    EXPECT_EQ(form->size_bytes, 512U);
    const auto operand = OperandOf(tensor);
    ASSERT_TRUE(operand.ok()) << operand.status();
    const absl::string_view bytes = std::get<Matrix>(*operand).bytes();
    ASSERT_EQ(bytes.size(), 512U);
    for (std::uint32_t code = 0; code < 256; ++code) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + 2 * code, 2);
      const double value = FromF16(half);
      if (code == 0x80) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, Value(type, code)) << type.name << " " << code;
      }
    }
  }
}

TEST(FnuzTest, AStackIsF16Too) {
  const auto form = FormOf(Tensor("w", "F8_E4M3FNUZ", {3, 2, 4}, std::string(24, '1')));
  ASSERT_TRUE(form.ok()) << form.status();
  EXPECT_EQ(form->size_bytes, 48U);
}

TEST(FnuzTest, CodesThatTheOtherTypeHasKeepTheirBitsAndHalveTheScale) {
  for (const Type& type : kTypes) {
    const double most = Value(type, type.fraction_bits == 3 ? 0x7e : 0x7b);
    const std::string codes = CodesWithout(type, 0, most);
    ExpectMatrix(Layers(type, codes, 0.3F).at(0), type.form, [&](std::uint64_t n, std::uint64_t k) {
      return double{0.3F} * Value(type, static_cast<std::uint8_t>(codes[n * 128 + k]));
    });
  }
}

TEST(FnuzTest, CodesThatAreTooLargeBecomeThoseOfTheirValues) {
  for (const Type& type : kTypes) {
    const double least = std::ldexp(1, 2 - type.bias);
    const std::string codes = CodesWithout(type, least, 1e6);
    EXPECT_NE(codes.find(0x7f), std::string::npos);
    ExpectMatrix(Layers(type, codes, 0.3F).at(0), type.form, [&](std::uint64_t n, std::uint64_t k) {
      return double{0.3F} * Value(type, static_cast<std::uint8_t>(codes[n * 128 + k]));
    });
  }
}

TEST(FnuzTest, NanStaysNan) {
  for (const Type& type : kTypes) {
    for (const char other : {char{1}, char{0x7f}}) {
      std::string codes(256, '\x10');
      codes[3] = '\x80';
      codes[4] = other;
      const auto operand = OperandOf(Layers(type, codes, 1.0F).at(0));
      ASSERT_TRUE(operand.ok()) << operand.status();
      const QuantizedView view = std::get<QuantizedArray>(*operand).view();
      EXPECT_TRUE(std::isnan(view.value(0, 3)));
      EXPECT_EQ(view.value(0, 4), Value(type, static_cast<std::uint8_t>(other)));
    }
  }
}

TEST(FnuzTest, ABlockWithBothOrWithoutHalfOfItsScaleIsNamed) {
  for (const Type& type : kTypes) {
    std::string codes(256, '\x10');
    codes[130] = '\x7f';
    codes[131] = '\x01';
    EXPECT_THAT(std::string(OperandOf(Layers(type, codes, 1.0F).at(0)).status().message()),
                HasSubstr("the block of row 1, columns 0 to 127 has no form in"));
    codes[131] = '\x02';
    EXPECT_TRUE(OperandOf(Layers(type, codes, 1.0F).at(0)).ok());
    const float least = FloatOf(1);
    codes[130] = '\x10';
    EXPECT_THAT(std::string(OperandOf(Layers(type, codes, least).at(0)).status().message()),
                HasSubstr("half of which has no f32"));
  }
}

}  // namespace
}  // namespace gemmd::client
