// Runs of codes, in every form that this processor has, are what DecodeElement() says of each.
#include "kernels/cpu/code_run.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr RowGemmForm kForms[] = {RowGemmForm::kPlain, RowGemmForm::kAvx2, RowGemmForm::kAvx512};
constexpr DataType kTypes[] = {
    DataType::kF32,     DataType::kF16,     DataType::kBf16,    DataType::kInt8,
    DataType::kUint8,   DataType::kInt4,    DataType::kUint4,   DataType::kFp8E4M3,
    DataType::kFp8E5M2, DataType::kFp6E3M2, DataType::kFp6E2M3, DataType::kFp4E2M1,
    DataType::kE8M0,    DataType::kNf4,     DataType::kBnbFp4,  DataType::kIq4Nl};

class CodeRuns : public ::testing::TestWithParam<DataType> {};

// NaN is NaN, whatever its bits.
bool IsSame(float x, float y) { return (std::isnan(x) && std::isnan(y)) || BitsOf(x) == BitsOf(y); }

// The plane ends where its last code does, so that sanitizers see a read beyond it.
TEST_P(CodeRuns, AreTheirElementsTimesNumbersOfBlocks) {
  const DataType type = GetParam();
  const int bits = SizeBits(type);
  std::mt19937 random(static_cast<std::uint32_t>(type) + 1);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t first = random() % 40;
    const std::int64_t count = 1 + random() % 300;
    std::vector<std::uint8_t> plane(static_cast<std::size_t>(PackedBytes(bits, first + count)));
    for (std::uint8_t& byte : plane) byte = static_cast<std::uint8_t>(random());
    const std::int64_t length = random() % 4 == 0 ? 1 : 16 * (1 + random() % 9);
    const auto numbers = static_cast<std::size_t>((count + length - 1) / length);
    std::vector<float> factors(numbers);
    std::vector<float> shifts(numbers);
    for (float& factor : factors) {
      factor = std::ldexp(static_cast<float>(random() >> 8), -static_cast<int>(random() % 60));
    }
    const auto shift = IsQuantizedInteger(type) ? random() % 3 : 0;  // none, zero point, offset
    for (float& each : shifts) {
      each = static_cast<float>(random() % 256) - 128;
      if (shift == 2) each = std::ldexp(each / 3, -static_cast<int>(random() % 30));
    }
    const Blocks blocks = {length, factors.data(), shift == 1 ? shifts.data() : nullptr,
                           shift == 2 ? shifts.data() : nullptr};
    for (const RowGemmForm form : kForms) {
      if (!HasRowGemmForm(form)) continue;
      std::vector<float> out(static_cast<std::size_t>(count) + 1, -7);
      DecodeRun({type, plane.data(), first, count}, blocks, out.data(), form);
      EXPECT_EQ(out.back(), -7) << "beyond the run";
      for (std::int64_t e = 0; e < count; ++e) {
        const auto block = static_cast<std::size_t>(e / length);
        const double value = DecodeElement(type, LoadCode(plane.data(), bits, first + e));
        const double zero = shift == 1 ? static_cast<double>(shifts[block]) : 0;
        const auto factor = static_cast<double>(factors[block]);
        const auto expected =
            shift == 2 ? std::fma(static_cast<float>(value), factors[block], shifts[block])
                       : static_cast<float>((value - zero) * factor);
        ASSERT_TRUE(IsSame(out[static_cast<std::size_t>(e)], expected))
            << "form " << static_cast<int>(form) << ", element " << e << " of " << first << " + "
            << count << ", blocks of " << length << ": " << out[static_cast<std::size_t>(e)]
            << ", not " << expected;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CodeRuns, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(LargestFinite, PassesOverNanAndInfinity) {
  std::mt19937 random(5);
  for (std::int64_t count = 0; count < 70; ++count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    float largest = 0;
    for (float& value : values) {
      value = FloatOf(static_cast<std::uint32_t>(random()) | (random() % 4 == 0 ? 0x7f800000U : 0));
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    for (const RowGemmForm form : kForms) {
      if (!HasRowGemmForm(form)) continue;
      EXPECT_EQ(LargestFinite(values.data(), count, form), largest) << count;
    }
  }
}

}  // namespace
}  // namespace gemmd
