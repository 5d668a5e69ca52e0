// Chains over codes, in every form that this processor has, are those over what DecodeRun() makes
// of the codes.
#include "kernels/cpu/code_dots.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr RowGemmForm kForms[] = {RowGemmForm::kAvx2, RowGemmForm::kAvx512};
constexpr DataType kTypes[] = {DataType::kF32,     DataType::kF16,     DataType::kBf16,
                               DataType::kInt8,    DataType::kUint8,   DataType::kInt4,
                               DataType::kUint4,   DataType::kFp8E4M3, DataType::kFp8E5M2,
                               DataType::kFp6E3M2, DataType::kFp6E2M3, DataType::kFp4E2M1,
                               DataType::kNf4,     DataType::kBnbFp4,  DataType::kIq4Nl};
constexpr std::int64_t kChains = 16;

std::size_t Size(std::int64_t count) { return static_cast<std::size_t>(count); }

// Lines of codes, their numbers, and rows.
struct Case {
  Case(DataType type, std::mt19937* random)
      : rows(1 + (*random)() % 8), steps(1 + (*random)() % kSpanSteps), pitch(steps * kChains + 3) {
    lines.type = type;
    const std::int64_t length = (*random)() % 4 == 0 ? std::int64_t{1} << 40  // one block
                                                     : kChains * (1 + (*random)() % 9);
    const std::int64_t blocks = (steps * kChains + length - 1) / length;
    const auto shift = IsQuantizedInteger(type) ? (*random)() % 3 : 0;  // none, zero point, offset
    for (std::int64_t j = 0; j < kDotColumns; ++j) {
      // The plane ends where its last code does, so that sanitizers see a read beyond it.
      planes[j].resize(Size(PackedBytes(SizeBits(type), steps * kChains)));
      for (std::uint8_t& byte : planes[j]) byte = static_cast<std::uint8_t>((*random)());
      lines.codes[j] = planes[j].data();
      factors[j].resize(Size(blocks));
      for (float& factor : factors[j]) factor = static_cast<float>((*random)() >> 8) * 0x1p-24F;
      shifts[j].resize(Size(blocks));
      for (float& each : shifts[j]) {
        each = static_cast<float>((*random)() % 16);
        if (shift == 2) each = (each - 8) / 3;
      }
      lines.numbers[j] = {length, factors[j].data(), shift == 1 ? shifts[j].data() : nullptr,
                          shift == 2 ? shifts[j].data() : nullptr};
    }
    std::normal_distribution<float> normal;
    a.resize(Size(rows * pitch));
    for (float& value : a) value = normal(*random);
    chains.resize(Size(rows * kDotColumns * kChains));
    for (float& value : chains) value = normal(*random);
  }

  // The chains after AddCodeDots().
  std::vector<float> Expected() const {
    std::vector<float> sums = chains;
    std::vector<float> line(Size(steps * kChains));
    for (std::int64_t j = 0; j < kDotColumns; ++j) {
      DecodeRun({lines.type, lines.codes[j], 0, steps * kChains}, lines.numbers[j], line.data(),
                RowGemmForm::kPlain);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t p = 0; p < steps * kChains; ++p) {
          float& sum = sums[Size((row * kDotColumns + j) * kChains + p % kChains)];
          sum = std::fma(a[Size(row * pitch + p)], line[Size(p)], sum);
        }
      }
    }
    return sums;
  }

  const std::int64_t rows;
  const std::int64_t steps;
  const std::int64_t pitch;
  CodeLines lines;
  std::vector<std::uint8_t> planes[kDotColumns];
  std::vector<float> factors[kDotColumns];
  std::vector<float> shifts[kDotColumns];
  std::vector<float> a;
  std::vector<float> chains;
};

bool IsSame(float x, float y) { return (std::isnan(x) && std::isnan(y)) || BitsOf(x) == BitsOf(y); }

class CodeDots : public ::testing::TestWithParam<DataType> {};

TEST_P(CodeDots, AreChainsOfDecodedLines) {
  std::mt19937 random(static_cast<std::uint32_t>(GetParam()) + 1);
  for (int i = 0; i < 100; ++i) {
    const Case play(GetParam(), &random);
    const std::vector<float> expected = play.Expected();
    for (const RowGemmForm form : kForms) {
      if (!HasRowGemmForm(form)) continue;
      std::vector<float> chains = play.chains;
      const bool fits = form == RowGemmForm::kAvx512 || play.rows <= 2;
      ASSERT_EQ(AddCodeDots(play.lines, {play.a.data(), play.pitch, play.rows}, play.steps,
                            chains.data(), form),
                fits)
          << play.rows << " rows";
      const std::vector<float>& then = fits ? expected : play.chains;
      for (std::size_t at = 0; at < chains.size(); ++at) {
        ASSERT_TRUE(IsSame(chains[at], then[at]))
            << "form " << static_cast<int>(form) << ", " << play.rows << " rows of " << play.steps
            << " steps, blocks of " << play.lines.numbers[0].length << ", chain " << at << ": "
            << chains[at] << ", not " << then[at];
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CodeDots, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(CodeDots, ArePlainlyReadAndMultiplied) {
  std::mt19937 random(1);
  const Case play(DataType::kInt4, &random);
  std::vector<float> chains = play.chains;
  EXPECT_FALSE(AddCodeDots(play.lines, {play.a.data(), play.pitch, play.rows}, play.steps,
                           chains.data(), RowGemmForm::kPlain));
  EXPECT_EQ(chains, play.chains);
}

}  // namespace
}  // namespace gemmd
