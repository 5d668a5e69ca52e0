#include "kernels/workshop/bench/sampled_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/numbers/float_bits.h"
#include "kernels/workshop/bench/bench_case.h"

namespace gemmd::bench {
namespace {

Problem Make(const char* types, const Shape& shape, Layout layout) {
  return MakeProblem({shape, ParseTypes(types)->front(), layout, true});
}

// The scale of element (line, i) of an operand; 1 where it has none.
double Scale(const Scaling& scaling, std::uint64_t seed, std::int64_t lines, std::int64_t k,
             std::int64_t line, std::int64_t i) {
  if (!scaling.has_scales) return 1;
  return RandomElement(scaling.type, seed,
                       static_cast<std::uint64_t>(scaling.index(lines, k, line, i)));
}

// Right lines, by the definition, each element rounded to D's type.
std::vector<std::vector<char>> RightLines(const Problem& p, const std::vector<std::int64_t>& rows) {
  std::vector<std::vector<char>> lines;
  const auto size = static_cast<std::size_t>(SizeBits(p.d.type) / 8);
  for (const std::int64_t row : rows) {
    std::vector<char>& line = lines.emplace_back(static_cast<std::size_t>(p.n) * size);
    for (std::int64_t column = 0; column < p.n; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        const auto a = static_cast<std::uint64_t>(row * p.a_row_stride() + k * p.a_inner_stride());
        const auto b =
            static_cast<std::uint64_t>(k * p.b_inner_stride() + column * p.b_column_stride());
        sum += RandomElement(p.a.type, kSeedOfA, a) * RandomElement(p.b.type, kSeedOfB, b) *
               Scale(p.a_scaling, kSeedOfAScales, p.m, p.k, row, k) *
               Scale(p.b_scaling, kSeedOfBScales, p.n, p.k, column, k);
      }
      char* to = line.data() + static_cast<std::size_t>(column) * size;
      const auto f32 = static_cast<float>(sum);
      const auto s32 = static_cast<std::int32_t>(sum);
      const std::uint16_t half = p.d.type == DataType::kF16 ? ToF16(f32) : ToBf16(f32);
      if (p.d.type == DataType::kF64) std::memcpy(to, &sum, size);
      if (p.d.type == DataType::kF32) std::memcpy(to, &f32, size);
      if (p.d.type == DataType::kInt32) std::memcpy(to, &s32, size);
      if (size == 2) std::memcpy(to, &half, size);
    }
  }
  return lines;
}

TEST(SampledCheck, AcceptsARoundedProductOfEveryTypeAndLayout) {
  const std::vector<std::int64_t> rows = Sampled(37, 5);
  const std::vector<std::int64_t> columns = Sampled(21, 4);
  for (const char* types : {"f16", "f16_f16", "f16_f32", "bf16", "bf16_f32", "tf32", "f32", "f64",
                            "int8", "fp8", "fp8_fast", "mxfp8"}) {
    for (const Layout layout : {Layout{false, false}, {false, true}, {true, false}, {true, true}}) {
      const Problem problem = Make(types, {37, 21, 90}, layout);
      const double worst = WorstError(problem, rows, columns, RightLines(problem, rows));
      EXPECT_LE(worst, 1) << types << " " << ToString(layout);
    }
  }
}

TEST(SampledCheck, RefusesANeighbourAndANan) {
  const Problem problem = Make("f16", {40, 40, 512}, {});
  const std::vector<std::int64_t> rows = Sampled(40, 3);
  const std::vector<std::int64_t> columns = Sampled(40, 3);
  std::vector<std::vector<char>> lines = RightLines(problem, rows);
  std::vector<std::vector<char>> shifted = lines;
  std::memmove(shifted[1].data(), shifted[1].data() + 2, shifted[1].size() - 2);
  EXPECT_GT(WorstError(problem, rows, columns, shifted), 10);
  lines[2][0] = static_cast<char>(0xff);
  lines[2][1] = static_cast<char>(0xff);
  EXPECT_EQ(WorstError(problem, rows, columns, lines), INFINITY);
}

// A product whose scales were left out, or taken from other places, is far beyond the bound.
TEST(SampledCheck, SeesScales) {
  const Problem problem = Make("mxfp8", {40, 40, 512}, {false, true});
  const std::vector<std::int64_t> rows = Sampled(40, 3);
  const std::vector<std::int64_t> columns = Sampled(40, 3);
  Problem unscaled = problem;
  unscaled.a_scaling = unscaled.b_scaling = Scaling::kNone;
  Problem reordered = problem;
  reordered.b_scaling.order = ScaleOrder::kAlongK;
  for (const Problem& other : {unscaled, reordered}) {
    EXPECT_GT(WorstError(problem, rows, columns, RightLines(other, rows)), 1000);
  }
}

TEST(SampledCheck, SamplesBothEnds) {
  EXPECT_EQ(Sampled(3, 8), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(Sampled(1, 8), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(Sampled(100, 3), (std::vector<std::int64_t>{0, 49, 99}));
}

TEST(Elements, LookNormal) {
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double value = RandomElement(DataType::kF32, 1, static_cast<std::uint64_t>(i));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.03);
  EXPECT_NEAR(squares / kCount, 1, 0.03);
}

}  // namespace
}  // namespace gemmd::bench
