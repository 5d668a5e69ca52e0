// Every format against exact arithmetic: each scale, zero point and code is the one that
// base/numbers/quant/README.md asks for, decided by comparisons of integers (exact_compare.h).
#include "base/numbers/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/numbers/quant/element_tables.h"
#include "tests/base/numbers/quant/exact_compare.h"

namespace gemmd {
namespace {

using testing::CompareProducts;

// Random blocks of each format; GEMMD_QUANT_BLOCKS is another number, for a longer search.
int BlockCount() {
  const char* given = std::getenv("GEMMD_QUANT_BLOCKS");
  return given == nullptr ? 10000 : std::atoi(given);
}

const testing::ElementCase& CaseOf(DataType type) {
  for (const testing::ElementCase& each : testing::FloatCases()) {
    if (each.type == type) return each;
  }
  ADD_FAILURE() << Name(type);
  return testing::FloatCases().front();
}

// The ends of a type of integers, and the largest one that symmetric codes use.
struct Integers {
  bool are = false;
  int lowest = 0;
  int highest = 0;
};

Integers IntegersOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return {true, -128, 127};
    case DataType::kUint8:
      return {true, 0, 255};
    case DataType::kInt4:
      return {true, -8, 7};
    case DataType::kUint4:
      return {true, 0, 15};
    default:
      return {};
  }
}

double LargestOf(DataType type) {
  if (!testing::TableValues(type).empty()) return testing::TableValues(type).back().value;
  const Integers integers = IntegersOf(type);
  if (integers.are) return integers.highest;
  static const std::map<DataType, double> largest = [] {
    std::map<DataType, double> values;
    for (const testing::ElementCase& each : testing::FloatCases()) {
      values[each.type] = testing::FiniteValues(each).back();
    }
    return values;
  }();
  return largest.at(type);
}

// The value of a positive scale.
double ScaleOf(DataType type, std::uint32_t code) {
  if (type == DataType::kE8M0) return std::ldexp(1.0, static_cast<int>(code) - 127);
  if (type == DataType::kF32) {
    float value;
    std::memcpy(&value, &code, sizeof value);
    return value;
  }
  static const std::vector<double> f16 = testing::FiniteValues(CaseOf(DataType::kF16));
  static const std::vector<double> bf16 = testing::FiniteValues(CaseOf(DataType::kBf16));
  static const std::vector<double> e4m3 = testing::FiniteValues(CaseOf(DataType::kFp8E4M3));
  const std::vector<double>& values =
      type == DataType::kF16 ? f16 : (type == DataType::kBf16 ? bf16 : e4m3);
  return code < values.size() ? values[code] : HUGE_VAL;
}

std::uint32_t SignBit(DataType type) { return std::uint32_t{1} << (SizeBits(type) - 1); }

// The value of a scale of either sign, or of an offset.
double NumberOf(DataType type, std::uint32_t code) {
  if (type == DataType::kE8M0 || (code & SignBit(type)) == 0) return ScaleOf(type, code);
  return -ScaleOf(type, code & ~SignBit(type));
}

// Returns whether the code is that of value / unit, rounded to nearest and saturated.
bool IsNearestScale(DataType type, std::uint32_t code, double value, double unit) {
  const double scale = ScaleOf(type, code);
  const double above = ScaleOf(type, code + 1);
  if (code > 0) {
    const int low = CompareProducts(2 * value, 1, ScaleOf(type, code - 1) + scale, unit);
    if (low < 0 || (low == 0 && code % 2 != 0)) return false;
  }
  if (std::isinf(above)) return true;
  const int high = CompareProducts(2 * value, 1, scale + above, unit);
  return high < 0 || (high == 0 && code % 2 == 0);
}

// Returns whether 2^(code - 127) is the scale of the MX rules.
bool IsMxScale(DataType element, std::uint32_t code, double magnitude, ScaleRule rule) {
  const double scale = std::ldexp(1.0, static_cast<int>(code) - 127);
  const double largest = LargestOf(element);
  if (rule == ScaleRule::kRoundUp) {
    // The least power that nothing saturates by.
    if (CompareProducts(magnitude, 1, largest, scale) > 0) return false;
    return code == 0 || CompareProducts(magnitude, 1, largest, scale / 2) > 0;
  }
  // The binade of amax / scale is that of the largest element, unless the scale is at its end.
  const double binade = std::pow(2.0, std::floor(std::log2(largest)));
  if (CompareProducts(magnitude, 1, 2 * binade, scale) >= 0) return false;
  return code == 0 || CompareProducts(magnitude, 1, binade, scale) >= 0;
}

// round(|value| / unit), which is small.
int Rounded(double value, double unit, const Rounding& rounding, std::uint32_t random_bits) {
  static const std::vector<double> integers = [] {
    std::vector<double> values(600);
    for (int i = 0; i < 600; ++i) values[static_cast<std::size_t>(i)] = i;
    return values;
  }();
  return static_cast<int>(rounding.is_stochastic
                              ? testing::StochasticIndex(integers, value, unit, random_bits)
                              : testing::NearestIndex(integers, value, unit));
}

// SplitMix64 by its published code: a state that steps.
std::uint32_t BitsOfElement(std::uint64_t seed, std::int64_t index) {
  std::uint64_t state = seed;
  std::uint64_t z = state += 0x9e3779b97f4a7c15u * (static_cast<std::uint64_t>(index) + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 32);
}

struct Sample {
  std::vector<float> values;
  std::int64_t lines;
  std::int64_t k;
};

// Lines of K with a magnitude each; some values vanish, some are far larger or smaller, and some
// are halfway between small integers times a power of two, where ties are. The format holds all.
Sample Draw(const QuantFormat& format, std::mt19937* random) {
  const auto below = [&](std::uint32_t limit) { return static_cast<int>((*random)() % limit); };
  Sample sample;
  const auto block =
      static_cast<std::uint32_t>(format.scaling.block_k == kWhole ? 24 : format.scaling.block_k);
  sample.lines = 1 + below(4);
  switch (below(8)) {
    case 0:
      sample.k = static_cast<std::int64_t>(block) * (1 + below(2));
      break;
    case 1:
      sample.k = 1 + below(2 * block + 8);
      break;
    default:
      sample.k = 1 + below(40);
  }
  const int range = below(8) == 0 ? 250 : 20;
  const int exponent = below(static_cast<std::uint32_t>(range)) - range / 2;
  const bool ties = below(3) == 0;
  for (std::int64_t i = 0; i < sample.lines * sample.k; ++i) {
    double value = ties ? (below(65) - 32) * 0.5 : std::normal_distribution<double>()(*random);
    if (below(16) == 0) value = 0;
    if (below(32) == 0) value = std::ldexp(value, below(40) - 34);
    value = std::ldexp(value, exponent);
    double most = format.scaling.type == DataType::kF16 ? 4e5 : 3.4028234e38;
    if (LargestOf(format.element) == 1) most = format.scaling.type == DataType::kF16 ? 6e4 : 3.3e38;
    if (format.scaling.type == DataType::kF16 && format.scaling.has_offsets) most = 6e4;
    if (!HasSign(format)) value = std::abs(value);
    sample.values.push_back(static_cast<float>(std::clamp(value, -most, most)));
  }
  return sample;
}

class Formats : public ::testing::TestWithParam<NamedFormat> {
 protected:
  // Checks all blocks of the sample and returns how many there were.
  int CheckSample(const QuantFormat& format, const Sample& sample, const QuantizeOptions& options) {
    const RealView real = {sample.values.data(), sample.lines, sample.k, sample.k};
    const absl::StatusOr<QuantizedMatrix> quantized = Quantize(format, real, options);
    EXPECT_TRUE(quantized.ok());
    quantized_ = &*quantized;
    sample_ = &sample;
    const std::int64_t line_step =
        format.scaling.block_lines == kWhole ? sample.lines : format.scaling.block_lines;
    const std::int64_t k_step =
        format.scaling.block_k == kWhole ? sample.k : format.scaling.block_k;
    if (format.scaling.has_tensor_scale) CheckTensorScale();
    int blocks = 0;
    for (std::int64_t line = 0; line < sample.lines; line += line_step) {
      for (std::int64_t k = 0; k < sample.k; k += k_step, ++blocks) {
        CheckBlock(line, std::min(line + line_step, sample.lines), k,
                   std::min(k + k_step, sample.k), options);
        if (HasFailure()) return blocks;
      }
    }
    return blocks;
  }

 private:
  void CheckTensorScale() {
    double magnitude = 0;
    for (const float value : sample_->values) {
      magnitude = std::max(magnitude, std::abs(static_cast<double>(value)));
    }
    std::uint32_t bits;
    std::memcpy(&bits, &quantized_->tensor_scale, sizeof bits);
    ASSERT_TRUE(IsNearestScale(DataType::kF32, bits, magnitude, 448.0 * 6));
  }

  void CheckBlock(std::int64_t line, std::int64_t line_end, std::int64_t k, std::int64_t k_end,
                  const QuantizeOptions& options) {
    const QuantFormat& format = quantized_->format;
    const Integers integers = IntegersOf(format.element);
    const double first = sample_->values[static_cast<std::size_t>(line * sample_->k + k)];
    double low = format.scaling.has_offsets ? first : 0;
    double high = low;
    for (std::int64_t l = line; l < line_end; ++l) {
      for (std::int64_t i = k; i < k_end; ++i) {
        const double value = sample_->values[static_cast<std::size_t>(l * sample_->k + i)];
        low = std::min(low, value);
        high = std::max(high, value);
      }
    }
    const std::int64_t at = format.scaling.index(sample_->lines, sample_->k, line, k);
    const std::uint32_t code =
        LoadCode(quantized_->scales.data(), SizeBits(format.scaling.type), at);
    const double block_scale = NumberOf(format.scaling.type, code);
    const double scale = block_scale * quantized_->tensor_scale;
    const double magnitude = integers.are && integers.lowest == 0 ? high : std::max(-low, high);
    int zero_point = 0;
    double offset = 0;
    if (format.scaling.has_offsets) {
      ASSERT_TRUE(IsNearestScale(format.scaling.type, code, high - low, integers.highest));
      const std::uint32_t of_offset =
          LoadCode(quantized_->offsets.data(), SizeBits(format.scaling.type), at);
      const std::uint32_t sign = SignBit(format.scaling.type);
      offset = NumberOf(format.scaling.type, of_offset);
      ASSERT_EQ((of_offset & sign) != 0, std::signbit(low)) << low;
      ASSERT_TRUE(IsNearestScale(format.scaling.type, of_offset & ~sign, std::abs(low), 1)) << low;
    } else if (format.scaling.type == DataType::kE8M0) {
      ASSERT_TRUE(IsMxScale(format.element, code, magnitude, options.scale_rule)) << magnitude;
    } else if (format.scaling.has_zero_points) {
      ASSERT_TRUE(IsNearestScale(format.scaling.type, code, high - low,
                                 integers.highest - integers.lowest));
      const std::uint8_t byte = quantized_->zero_points[static_cast<std::size_t>(at)];
      zero_point = integers.lowest < 0 ? static_cast<std::int8_t>(byte) : byte;
      const int steps = scale == 0 ? 0 : Rounded(-low, scale, {}, 0);
      ASSERT_EQ(zero_point, std::min(integers.lowest + steps, integers.highest));
    } else if (HasRule(format, options.scale_rule) && options.scale_rule == ScaleRule::kFullRange) {
      const std::uint32_t sign = SignBit(format.scaling.type);
      const double lowest =
          integers.are ? integers.lowest : testing::TableValues(format.element).front().value;
      ASSERT_TRUE(IsNearestScale(format.scaling.type, code & ~sign, magnitude, -lowest));
      ASSERT_EQ((code & sign) != 0, high > -low);
    } else {
      const double unit = LargestOf(format.element) * quantized_->tensor_scale;
      if (unit == 0) {
        ASSERT_EQ(code, 0u);
      } else {
        ASSERT_TRUE(IsNearestScale(format.scaling.type, code, magnitude, unit)) << magnitude;
      }
    }
    for (std::int64_t l = line; l < line_end; ++l) {
      for (std::int64_t i = k; i < k_end; ++i) {
        CheckElement(l * sample_->k + i, l, i, scale, zero_point, offset, options.rounding);
        if (HasFatalFailure()) return;
      }
    }
  }

  void CheckElement(std::int64_t index, std::int64_t line, std::int64_t k, double scale,
                    int zero_point, double offset, const Rounding& rounding) {
    const QuantFormat& format = quantized_->format;
    // A scale below zero is looked at as one above, of the other value.
    const double turn = scale < 0 ? -1 : 1;
    scale *= turn;
    const double value = turn * (sample_->values[static_cast<std::size_t>(index)] - offset);
    const std::uint32_t bits = BitsOfElement(rounding.seed, index);
    const Integers integers = IntegersOf(format.element);
    double expected;
    if (!testing::TableValues(format.element).empty()) {
      const int code = scale == 0 ? 0 : CodeInTable(value, scale, rounding, bits);
      ASSERT_EQ(DecodeElement(format.element, quantized_->view().code(line, k)) * scale,
                DecodeElement(format.element, static_cast<std::uint32_t>(code)) * scale)
          << value << " / " << scale << ", code " << code;
      return;
    }
    if (integers.are) {
      int rounded = scale == 0 ? 0 : Rounded(std::abs(value), scale, rounding, bits);
      if (value < 0) rounded = -rounded;
      expected = std::clamp(rounded + zero_point, integers.lowest, integers.highest) - zero_point;
    } else {
      const std::vector<double>& values = Values(format.element);
      const std::size_t nearest =
          scale == 0 ? 0
                     : (rounding.is_stochastic
                            ? testing::StochasticIndex(values, std::abs(value), scale, bits)
                            : testing::NearestIndex(values, std::abs(value), scale));
      expected = std::copysign(values[nearest], value);
    }
    if (quantized_->format.scaling.has_offsets) {
      ASSERT_EQ(quantized_->view().value(line, k), expected * scale + offset);
      return;
    }
    const double stated = turn * quantized_->view().value(line, k);
    ASSERT_EQ(CompareProducts(std::abs(stated), 1, std::abs(expected), scale), 0)
        << "(" << line << ", " << k << "): " << value << " / " << scale << " is " << stated;
    if (stated != 0) {
      ASSERT_EQ(std::signbit(stated), std::signbit(expected));
    }
  }

  // The code of value / scale. REQUIRES: scale > 0.
  int CodeInTable(double value, double scale, const Rounding& rounding, std::uint32_t bits) const {
    const auto& table = testing::TableValues(quantized_->format.element);
    std::size_t low = 0;
    while (low + 1 < table.size() &&
           testing::CompareWithMultiple(value, table[low + 1].value, scale) >= 0) {
      ++low;
    }
    if (low + 1 == table.size() ||
        testing::CompareWithMultiple(value, table[low].value, scale) <= 0) {
      return table[low].code;
    }
    const testing::TableValue& below = table[low];
    const testing::TableValue& above = table[low + 1];
    if (rounding.is_stochastic) {
      const double fraction = (value / scale - below.value) / (above.value - below.value);
      return fraction * 0x1p32 > bits ? above.code : below.code;
    }
    const int side = testing::CompareWithMultiple(2 * value, below.value + above.value, scale);
    if (side == 0) return below.code % 2 == 0 ? below.code : above.code;
    return side < 0 ? below.code : above.code;
  }

  const std::vector<double>& Values(DataType type) {
    if (values_.empty()) values_ = testing::FiniteValues(CaseOf(type));
    return values_;
  }

  std::vector<double> values_;
  const QuantizedMatrix* quantized_ = nullptr;
  const Sample* sample_ = nullptr;
};

TEST_P(Formats, TenThousandBlocksAreTheSpecifications) {
  std::mt19937 random(11);
  const int wanted = BlockCount();
  ASSERT_GT(wanted, 0);
  for (int blocks = 0; blocks < wanted;) {
    QuantFormat format = GetParam().format;
    format.scaling.order = static_cast<ScaleOrder>(random() % 3);
    const Sample sample = Draw(format, &random);
    QuantizeOptions options;
    options.scale_rule = static_cast<ScaleRule>(random() % 3);
    options.rounding = {random() % 3 == 0, random()};
    blocks += CheckSample(format, sample, options);
    ASSERT_FALSE(HasFailure()) << "after " << blocks << " blocks";
  }
}

TEST_P(Formats, AMatrixOfZerosIsZero) {
  const std::vector<float> zeros(5 * 140);
  const absl::StatusOr<QuantizedMatrix> quantized =
      Quantize(GetParam().format, {zeros.data(), 5, 140, 140});
  ASSERT_TRUE(quantized.ok());
  for (const double value : Dequantize(quantized->view())) ASSERT_EQ(value, 0);
}

// Equal values have equal codes whatever strides they are read with.
TEST_P(Formats, StridesOfTheSourceDoNotMatter) {
  std::mt19937 random(12);
  constexpr std::int64_t kLines = 5;
  constexpr std::int64_t kSize = 141;
  std::vector<float> rows(kLines * kSize);
  std::vector<float> columns(kLines * kSize);
  for (std::int64_t line = 0; line < kLines; ++line) {
    for (std::int64_t k = 0; k < kSize; ++k) {
      auto value = static_cast<float>(std::normal_distribution<double>()(random));
      if (!HasSign(GetParam().format)) value = std::abs(value);
      rows[static_cast<std::size_t>(line * kSize + k)] = value;
      columns[static_cast<std::size_t>(k * kLines + line)] = value;
    }
  }
  const auto by_rows = Quantize(GetParam().format, {rows.data(), kLines, kSize, kSize, 1});
  const auto by_columns = Quantize(GetParam().format, {columns.data(), kLines, kSize, 1, kLines});
  ASSERT_TRUE(by_rows.ok() && by_columns.ok());
  EXPECT_EQ(by_rows->codes, by_columns->codes);
  EXPECT_EQ(by_rows->scales, by_columns->scales);
  EXPECT_EQ(by_rows->zero_points, by_columns->zero_points);
}

// However the source and the codes lie; 301 lines of 4-bit codes share bytes.
TEST_P(Formats, ThreadsDoNotMatter) {
  std::mt19937 random(13);
  constexpr std::int64_t kSize = 901;
  const QuantFormat& format = GetParam().format;
  for (const std::int64_t lines : {301, 304}) {
    std::vector<float> values(static_cast<std::size_t>(lines * kSize));
    for (float& each : values) {
      each = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31f;
      if (!HasSign(format)) each = std::abs(each);
    }
    for (const bool k_is_inner : {true, false}) {
      RealView real{values.data(), lines, kSize, kSize, 1};
      if (!k_is_inner) std::tie(real.line_stride, real.k_stride) = std::make_pair(1, lines);
      const auto made = [&](int threads) {
        QuantizedMatrix matrix;
        matrix.codes.resize(
            static_cast<std::size_t>(PackedBytes(SizeBits(format.element), lines * kSize)));
        const auto scale_count = static_cast<std::size_t>(format.scaling.count(lines, kSize));
        matrix.scales.resize(scale_count * 4);
        matrix.zero_points.resize(scale_count);
        matrix.offsets.resize(scale_count * 4);
        QuantizeOptions options;
        options.threads = threads;
        const absl::StatusOr<float> tensor_scale =
            QuantizeInto(format, real, options,
                         {matrix.codes.data(), real.line_stride, real.k_stride,
                          matrix.scales.data(), matrix.zero_points.data(), matrix.offsets.data()});
        EXPECT_TRUE(tensor_scale.ok());
        matrix.tensor_scale = tensor_scale.value_or(0);
        return matrix;
      };
      const QuantizedMatrix by_one = made(1);
      const QuantizedMatrix by_four = made(4);
      EXPECT_TRUE(by_one.codes == by_four.codes);
      EXPECT_EQ(by_one.scales, by_four.scales);
      EXPECT_EQ(by_one.zero_points, by_four.zero_points);
      EXPECT_EQ(by_one.offsets, by_four.offsets);
      EXPECT_EQ(by_one.tensor_scale, by_four.tensor_scale);
    }
  }
}

TEST_P(Formats, NanAndInfinityAreRefusedByPlace) {
  std::vector<float> values(3 * 40, 1.0f);
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    values[47] = bad;
    const auto quantized = Quantize(GetParam().format, {values.data(), 3, 40, 40});
    ASSERT_EQ(quantized.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(quantized.status().message().find("(1, 7)"), absl::string_view::npos);
  }
  std::vector<float> many(200 * 1000, 1.0f);
  many[199 * 1000 + 998] = HUGE_VALF;
  QuantizeOptions options;
  options.threads = 3;
  const auto quantized = Quantize(GetParam().format, {many.data(), 200, 1000, 1000}, options);
  ASSERT_EQ(quantized.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(quantized.status().message().find("(199, 998)"), absl::string_view::npos);
}

// The largest values of f32 but for what README.md says is refused, and the next value beyond that.
TEST_P(Formats, TheLastValueInRangeIsHeldAndTheNextRefusedByPlace) {
  const QuantFormat& format = GetParam().format;
  const auto quantize = [&](float low, float high) {
    std::vector<float> values(3 * 40, 1.0f);
    values[40] = low;
    values[47] = high;
    return Quantize(format, {values.data(), 3, 40, 40});
  };
  const auto refusal = [&](float low, float high) {
    const auto quantized = quantize(low, high);
    EXPECT_EQ(quantized.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(quantized.status().message());
  };
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (format.scaling.type == DataType::kBf16 && LargestOf(format.element) == 1) {
    const auto limit = static_cast<float>(0x1.ffp127);  // half a step past the largest bf16
    EXPECT_TRUE(quantize(0, std::nextafter(limit, 0.0f)).ok());
    EXPECT_THAT(refusal(0, limit), ::testing::EndsWith("below 3.39618e+38; f32 scales hold more"));
    return;
  }
  if (format.scaling.type != DataType::kF16) {
    EXPECT_TRUE(quantize(0, kLargest).ok());
    if (HasSign(format)) {
      EXPECT_TRUE(quantize(-kLargest, 0).ok());
      return;
    }
    // Half of the scale is rounded to 0, and no more.
    EXPECT_TRUE(quantize(-0.5f, 255).ok());
    EXPECT_EQ(refusal(std::nextafter(-0.5f, -1.0f), 255),
              "element (1, 0) is -0.5: uint8 without zero points holds nothing below 0; formats "
              "with -zp do");
    // A value below 0 makes no scale: half of 300 would hold -0.5 as 0.
    EXPECT_THAT(refusal(-0.5f, -300), ::testing::StartsWith("element (1, 0) is -0.5: "));
    return;
  }
  if (format.scaling.has_offsets) {
    EXPECT_TRUE(quantize(0, std::nextafter(65520.0f, 0.0f)).ok());
    EXPECT_EQ(
        refusal(-65520, 1),
        "element (1, 0) is -65520: uint4 with f16 scales and offsets holds blocks whose lowest "
        "value has a magnitude below 65520 and that span less than 982800; bf16 ones hold "
        "more");
    EXPECT_TRUE(quantize(-60000, 900000).ok());
    EXPECT_EQ(quantize(-60000, 930000).ok(), false);
    return;
  }
  const bool is_affine = format.scaling.has_zero_points;
  const float codes = is_affine ? 15 : static_cast<float>(LargestOf(format.element));
  const float limit = codes * 65520;
  const auto largest = quantize(0, std::nextafter(limit, 0.0f));
  ASSERT_TRUE(largest.ok());
  EXPECT_EQ(largest->view().value(1, 7), codes * 65504);
  EXPECT_THAT(refusal(0, limit), ::testing::StartsWith(absl::StrCat("element (1, 7) is ", limit,
                                                                    ": ", Name(format.element))));
  EXPECT_THAT(refusal(0, limit),
              ::testing::HasSubstr(absl::StrCat(is_affine ? "less than " : "below ", limit)));
  if (!IntegersOf(format.element).are) {
    EXPECT_FALSE(quantize(-limit, 10).ok());
    return;
  }
  EXPECT_TRUE(quantize(-400000, 400000).ok());
  EXPECT_EQ(quantize(-500000, 500000).ok(), false);
  EXPECT_EQ(quantize(-480000, 10).ok(), is_affine);
}

INSTANTIATE_TEST_SUITE_P(All, Formats, ::testing::ValuesIn(QuantFormats()), [](const auto& info) {
  return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
});

// Blocks of 128 lines, too many for the random blocks.
TEST(QuantFormats, BlocksOf128LinesEndWithTheLines) {
  const QuantFormat& format = *FindQuantFormat("fp8-e4m3-128x128");
  std::vector<float> values(130 * 150, 1.0f);
  values[129 * 150 + 3] = 448 * 4.0f;
  values[127 * 150 + 128] = 448 * 2.0f;
  const auto quantized = Quantize(format, {values.data(), 130, 150, 150});
  ASSERT_TRUE(quantized.ok());
  EXPECT_EQ(format.scaling.count(130, 150), 4);
  EXPECT_EQ(quantized->view().scale(0, 0), static_cast<float>(1 / 448.0));
  EXPECT_EQ(quantized->view().scale(127, 128), 2);
  EXPECT_EQ(quantized->view().scale(128, 127), 4);
  EXPECT_EQ(quantized->view().scale(129, 149), static_cast<float>(1 / 448.0));
}

TEST(QuantFormats, NamesAreFoundAndBitsAreCounted) {
  EXPECT_EQ(FindQuantFormat("mxfp16"), nullptr);
  const auto bits = [](absl::string_view name) { return BitsPerElement(*FindQuantFormat(name)); };
  EXPECT_EQ(bits("int8-tensor"), 8);
  EXPECT_EQ(bits("mxfp8-e4m3"), 8.25);
  EXPECT_EQ(bits("mxfp6-e2m3"), 6.25);
  EXPECT_EQ(bits("nvfp4"), 4.5);
  EXPECT_EQ(bits("int4-g128-bf16"), 4.125);
  EXPECT_EQ(bits("int4-g32-f16-zp"), 4.75);
  EXPECT_EQ(bits("int8-g64-zp"), 8.625);
}

// One block by hand: OCP MX's floor rule lets 7 saturate at 6, the round-up rule does not.
TEST(QuantFormats, TheTwoRulesOfMxfp4) {
  const QuantFormat& format = *FindQuantFormat("mxfp4");
  const std::vector<float> values = {7, 1, -0.25f, 0.75f};
  QuantizeOptions options;
  const auto floor = Quantize(format, {values.data(), 1, 4, 4}, options);
  options.scale_rule = ScaleRule::kRoundUp;
  const auto up = Quantize(format, {values.data(), 1, 4, 4}, options);
  ASSERT_TRUE(floor.ok() && up.ok());
  EXPECT_EQ(floor->scales[0], 127);
  EXPECT_EQ(Dequantize(floor->view()), (std::vector<double>{6, 1, 0, 1}));
  EXPECT_EQ(up->scales[0], 128);
  EXPECT_EQ(Dequantize(up->view()), (std::vector<double>{8, 1, 0, 1}));
}

}  // namespace
}  // namespace gemmd
