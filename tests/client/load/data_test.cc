#include "client/load/data.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "client/load/random.h"
#include "gtest/gtest.h"

namespace gemmd::load {
namespace {

client::MatrixFormat Format(DataType type, std::uint64_t rows, std::uint64_t columns) {
  client::MatrixFormat format;
  format.type = type;
  format.rows = rows;
  format.columns = columns;
  return format;
}

std::vector<double> Values(DataType type, Distribution distribution, bool nan = false) {
  const client::Matrix matrix = Generate(Format(type, 100, 200), {distribution, nan}, 5);
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 20000; ++i) values.push_back(ElementAt(type, matrix.bytes(), i));
  return values;
}

double Mean(const std::vector<double>& values, double power) {
  double sum = 0;
  for (const double value : values) sum += std::pow(value, power);
  return sum / static_cast<double>(values.size());
}

TEST(Data, HasItsDistribution) {
  for (const DataType type :
       {DataType::kF64, DataType::kF32, DataType::kTf32, DataType::kF16, DataType::kBf16}) {
    const auto normal = Values(type, Distribution::kNormal);
    EXPECT_NEAR(Mean(normal, 1), 0, 0.03);
    EXPECT_NEAR(Mean(normal, 2), 1, 0.03);
    EXPECT_NEAR(Mean(normal, 4), 3, 0.2);
    const auto uniform = Values(type, Distribution::kUniform);
    EXPECT_NEAR(Mean(uniform, 1), 0.5, 0.01);
    EXPECT_NEAR(Mean(uniform, 2), 1.0 / 3, 0.01);
    // The mean of 4^-6 .. 4^6.
    EXPECT_NEAR(Mean(Values(type, Distribution::kScales), 2) / 420.1, 1, 0.2);
  }
  for (const DataType type : {DataType::kFp8E4M3, DataType::kFp8E5M2}) {
    EXPECT_NEAR(Mean(Values(type, Distribution::kNormal), 2), 1, 0.1);
    EXPECT_NEAR(Mean(Values(type, Distribution::kUniform), 1), 0.5, 0.02);
  }
  const auto bytes = Values(DataType::kInt8, Distribution::kUniform);
  EXPECT_NEAR(Mean(bytes, 1), -0.5, 1.5);
  EXPECT_NEAR(Mean(bytes, 2), 5461.5, 100);
  EXPECT_NEAR(Mean(Values(DataType::kInt8, Distribution::kNormal), 2), 1024, 40);
}

TEST(Data, IsTheSameForTheSameSeedAndOtherForAnother) {
  const client::MatrixFormat format = Format(DataType::kF32, 3, 5);
  const DataSpec spec;
  EXPECT_EQ(Generate(format, spec, 1).bytes(), Generate(format, spec, 1).bytes());
  EXPECT_NE(Generate(format, spec, 1).bytes(), Generate(format, spec, 2).bytes());
  // The values are the same on this and every other platform.
  const client::Matrix integers =
      Generate(Format(DataType::kInt8, 1, 4), {Distribution::kUniform}, 1);
  EXPECT_EQ(ElementAt(DataType::kInt8, integers.bytes(), 0), -98);
}

// The parts are the same however many threads draw them.
TEST(Data, IsOneSequence) {
  constexpr std::uint64_t kCount = (std::uint64_t{5} << 18) + 7;
  const auto expect = [](DataType type, Distribution distribution, auto draw) {
    const client::Matrix matrix = Generate(Format(type, 1, kCount), {distribution}, 3);
    Random random(3);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(ElementAt(type, matrix.bytes(), i), draw(random)) << i;
    }
  };
  const auto add_nans = [&] {
    const client::Matrix matrix =
        Generate(Format(DataType::kF32, 1, kCount), {Distribution::kUniform, true}, 3);
    Random random(3);
    random.Skip(kCount);
    for (std::uint64_t i = 0; i < (kCount + 999) / 1000; ++i) {
      ASSERT_TRUE(std::isnan(ElementAt(DataType::kF32, matrix.bytes(), random.Next() % kCount)));
    }
  };
  add_nans();
  expect(DataType::kF64, Distribution::kNormal, [](Random& r) { return r.Normal(); });
  expect(DataType::kF64, Distribution::kUniform, [](Random& r) { return r.Unit(); });
  expect(DataType::kF64, Distribution::kScales, [](Random& r) {
    const double normal = r.Normal();
    return std::ldexp(normal, static_cast<int>(r.Next() % 13) - 6);
  });
  expect(DataType::kInt8, Distribution::kUniform,
         [](Random& r) { return static_cast<double>(r.Next() % 256) - 128; });
  expect(DataType::kInt8, Distribution::kScales,
         [](Random& r) { return std::clamp(std::nearbyint(32 * r.Normal()), -128.0, 127.0); });
}

TEST(Data, HasAsManyNansAsSaid) {
  int nans = 0;
  for (const double value : Values(DataType::kBf16, Distribution::kNormal, true)) {
    nans += std::isnan(value) ? 1 : 0;
  }
  EXPECT_GE(nans, 18);  // 20 places, which may coincide
  EXPECT_LE(nans, 20);
}

}  // namespace
}  // namespace gemmd::load
