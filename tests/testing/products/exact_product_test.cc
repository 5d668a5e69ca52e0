#include "tests/testing/products/exact_product.h"

#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

using boost::multiprecision::cpp_int;

// Exact numbers are integers of 2^-kPlaces; products of two have twice the places.
constexpr int kPlaces = 400;

// REQUIRES: a multiple of 2^-places.
cpp_int Exactly(double value, int places) {
  int exponent = 0;
  const cpp_int integer = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int shift = exponent - 53 + places;
  return shift < 0 ? cpp_int(integer / (cpp_int(1) << -shift)) : cpp_int(integer << shift);
}

QuantizedMatrix Random(const QuantFormat& format, std::int64_t lines, std::int64_t k,
                       std::mt19937* random) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < lines * k; ++i) {
    values.push_back(static_cast<float>(std::ldexp(std::normal_distribution<double>()(*random),
                                                   static_cast<int>((*random)() % 13) - 6)));
    if (!HasSign(format)) values.back() = std::abs(values.back());
  }
  return *Quantize(format, {values.data(), lines, k, k});
}

// Every format times others: the sum of products of decoded values, in integers of any length.
TEST(ExactProduct, IsTheProductOfDecodedOperandsInIntegers) {
  std::mt19937 random(1);
  for (const NamedFormat& of_a : QuantFormats()) {
    for (int i = 0; i < 8; ++i) {
      const NamedFormat& of_b = QuantFormats()[random() % QuantFormats().size()];
      const auto k = static_cast<std::int64_t>(1 + random() % 140);
      const QuantizedMatrix a = Random(of_a.format, 2, k, &random);
      const QuantizedMatrix b = Random(of_b.format, 3, k, &random);
      const ExactProductResult result = ExactProduct(a.view(), b.view());
      ASSERT_EQ(result.d.size(), 6u);
      for (std::int64_t m = 0; m < 2; ++m) {
        for (std::int64_t n = 0; n < 3; ++n) {
          cpp_int exact = 0;
          cpp_int magnitude = 0;
          for (std::int64_t at = 0; at < k; ++at) {
            const cpp_int product =
                Exactly(a.view().value(m, at), kPlaces) * Exactly(b.view().value(n, at), kPlaces);
            exact += product;
            magnitude += abs(product);
          }
          const auto index = static_cast<std::size_t>(m * 3 + n);
          const cpp_int error = Exactly(result.d[index], 2 * kPlaces) - exact;
          const cpp_int bound = (abs(exact) >> 53) + (magnitude >> 90);
          ASSERT_LE(abs(error), bound) << of_a.name << " " << of_b.name;
          const cpp_int excess = Exactly(result.magnitude[index], 2 * kPlaces) - magnitude;
          ASSERT_LE(abs(excess), magnitude >> 52);
        }
      }
    }
  }
}

TEST(ExactProduct, SumsOfInt8AreExactIntegers) {
  std::mt19937 random(2);
  QuantizedMatrix a;
  a.format = *FindQuantFormat("int8-tensor");
  a.lines = 1;
  a.k = 131071;
  a.scales = {0, 0, 0x80, 0x3f};  // 1
  a.codes.resize(131071);
  QuantizedMatrix b = a;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < a.codes.size(); ++i) {
    a.codes[i] = static_cast<std::uint8_t>(random() % 8 == 0 ? random() : 0x80);
    b.codes[i] = static_cast<std::uint8_t>(random() % 8 == 0 ? random() : 0x80);
    sum += static_cast<std::int8_t>(a.codes[i]) * static_cast<std::int8_t>(b.codes[i]);
  }
  EXPECT_EQ(ExactProduct(a.view(), b.view()).d[0], static_cast<double>(sum));
}

TEST(ExactProduct, NanScalesAndInfiniteElementsShow) {
  const std::vector<float> ones(33, 1.0f);
  QuantizedMatrix a = *Quantize(*FindQuantFormat("mxfp8-e5m2"), {ones.data(), 1, 33, 33});
  const QuantizedMatrix b = *Quantize(*FindQuantFormat("mxfp4"), {ones.data(), 1, 33, 33});
  EXPECT_EQ(ExactProduct(a.view(), b.view()).d[0], 33);
  a.codes[5] = 0x7c;  // infinity
  EXPECT_EQ(ExactProduct(a.view(), b.view()).d[0], HUGE_VAL);
  a.scales[1] = 0xff;
  EXPECT_TRUE(std::isnan(ExactProduct(a.view(), b.view()).d[0]));
}

}  // namespace
}  // namespace gemmd
