// Operands decoded in the emulator have the bits that the CPU's kernels decode to, for every
// format, order and padding.
#include "kernels/dequantize/dequantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gtest/gtest.h"
#include "kernels/cpu/line_decoder.h"
#include "kernels/emulator/session.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/quantized_product.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

using testing::Draws;
using testing::QuantizedOperand;

// An operand, what the CPU makes of it, and where the emulator puts what it makes.
struct Case {
  Case(QuantizedOperand from, std::int64_t lines, std::int64_t k, bool is_a)
      : operand(std::move(from)), line_scales(lines), line_factors(lines) {
    const bool lines_are_rows = is_a != operand.transpose;
    const MatrixLayout& layout = operand.layout;
    view.format = {layout.type, operand.scaling};
    view.lines = lines;
    view.k = k;
    view.codes = operand.codes.data();
    view.line_stride = lines_are_rows ? layout.row_stride() : layout.column_stride();
    view.k_stride = lines_are_rows ? layout.column_stride() : layout.row_stride();
    if (operand.scaling.has_scales) view.scales = operand.quantized.scales.data();
    if (operand.scaling.has_zero_points) view.zero_points = operand.quantized.zero_points.data();
    if (operand.scaling.has_offsets) view.offsets = operand.quantized.offsets.data();
    view.tensor_scale = operand.quantized.tensor_scale;

    d.element = layout.type;
    d.scaling = operand.scaling;
    d.lines = lines;
    d.k = k;
    d.codes = view.codes;
    d.codes_bytes = operand.codes.size();
    d.line_stride = view.line_stride;
    d.k_stride = view.k_stride;
    d.scales = view.scales;
    d.zero_points = view.zero_points;
    d.offsets = view.offsets;
    if (operand.scaling.has_tensor_scale) d.tensor_scale = &operand.quantized.tensor_scale;
    d.line_scales = line_scales.data();
    d.line_factors = operand.scaling.has_tensor_scale ? line_factors.data() : line_scales.data();
  }

  QuantizedOperand operand;
  QuantizedView view;
  Dequantization d;
  std::vector<float> line_scales;
  std::vector<float> line_factors;
};

// The bits of a value, of which every NaN has the same.
std::uint64_t BitsOf(DataType type, const void* plane, std::int64_t index) {
  std::uint64_t bits = 0;
  const auto bytes = static_cast<std::size_t>(SizeBits(type) / 8);
  std::memcpy(&bits, static_cast<const char*>(plane) + static_cast<std::size_t>(index) * bytes,
              bytes);
  const MatrixLayout one = {type, 1, 1, Order::kRowMajor, 1};
  return std::isnan(LoadElement(one, &bits, 0, 0)) ? ~std::uint64_t{0} : bits;
}

// The bits that the type has of a value of the CPU's.
std::uint64_t Wanted(DataType type, double value) {
  if (std::isnan(value)) return ~std::uint64_t{0};
  std::uint64_t bits = 0;
  const auto single = static_cast<float>(value);
  switch (type) {
    case DataType::kF64:
      std::memcpy(&bits, &value, 8);
      break;
    case DataType::kF32:
      std::memcpy(&bits, &single, 4);
      break;
    case DataType::kF16:
      bits = ToF16(single);
      break;
    default:
      bits = ToBf16(single);
      break;
  }
  return bits;
}

std::string Compare(Case* c, DataType output) {
  Dequantization& d = c->d;
  testing::Workspace values(
      static_cast<std::uint64_t>(d.lines * DequantizedPitch(d.k) * SizeBits(output) / 8));
  d.output = output;
  d.values = values.data();
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = LaunchDequantize(d, target);
  if (!status.ok()) return std::string(status.message());

  const LineDecoder decoder(c->view);
  std::vector<double> scales;
  for (std::int64_t line = 0; line < d.lines; ++line) {
    scales.push_back(d.scaling.has_scales ? decoder.LineScale(line) : 1);
  }
  // The CPU has such a scale in its line factor, which is of f64 there.
  std::vector<double> block_factors(scales.size(), 1);
  if (d.scaling.has_tensor_scale && d.scaling.k_blocks(d.k) == 1) {
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (scales[i] == 0) {
        block_factors[i] = 0;
        scales[i] = 1;
      } else if (std::isfinite(scales[i])) {
        const double power = std::ldexp(1.0, std::ilogb(scales[i]));
        block_factors[i] = scales[i] / power;
        scales[i] = power;
      }
    }
  }
  std::vector<double> wanted(static_cast<std::size_t>(d.lines * d.k));
  if (output == DataType::kF64) {
    decoder.Lines(0, d.lines, scales.data(), wanted.data());
  } else {
    std::vector<float> singles(wanted.size());
    decoder.Lines(0, d.lines, scales.data(), singles.data());
    std::copy(singles.begin(), singles.end(), wanted.begin());
  }
  for (std::int64_t line = 0; line < d.lines; ++line) {
    const auto at = static_cast<std::size_t>(line);
    if (d.scaling.has_scales) {
      const double factor = scales[at] * c->view.tensor_scale;
      if (Wanted(DataType::kF32, factor) != BitsOf(DataType::kF32, d.line_factors, line)) {
        return absl::StrCat("line factor ", line, " is ", d.line_factors[line], ", not ", factor);
      }
    }
    for (std::int64_t k = 0; k < d.k; ++k) {
      const double value =
          wanted[at * static_cast<std::size_t>(d.k) + static_cast<std::size_t>(k)] *
          block_factors[at];
      if (Wanted(output, value) != BitsOf(output, d.values, line * DequantizedPitch(d.k) + k)) {
        return absl::StrCat("(", line, ", ", k, ") is not ", value);
      }
    }
  }
  return "";
}

class Dequantize : public ::testing::TestWithParam<NamedFormat> {};

TEST_P(Dequantize, HasTheBitsOfTheCpu) {
  Draws draws(static_cast<std::uint32_t>(3 + 7 * GetParam().name.size()));
  constexpr DataType kOutputs[] = {DataType::kBf16, DataType::kF16, DataType::kF32, DataType::kF64};
  for (int i = 0; i < 8; ++i) {
    const std::int64_t lines = 1 + draws.Below(i % 4 == 0 ? 150 : 9);
    const std::int64_t k = 1 + draws.Below(i % 4 == 1 ? 400 : 90);
    const bool is_a = draws.Below(2) == 0;
    Case c(draws.Lines(GetParam().format, lines, k, is_a), lines, k, is_a);
    for (const DataType output : kOutputs) {
      ASSERT_EQ(Compare(&c, output), "") << lines << " lines of " << k << " to " << Name(output);
    }
  }
}

std::vector<NamedFormat> Formats() {
  const absl::Span<const NamedFormat> formats = QuantFormats();
  std::vector<NamedFormat> all(formats.begin(), formats.end());
  all.push_back({"f32", {DataType::kF32, Scaling::kNone}});
  all.push_back({"f16", {DataType::kF16, Scaling::kNone}});
  all.push_back({"bf16", {DataType::kBf16, Scaling::kNone}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Dequantize, ::testing::ValuesIn(Formats()), [](const auto& info) {
  return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
});

// Every code of every element type, and every code of every type of scales of 8 bits.
TEST(DequantizeCodes, AreAllDecoded) {
  for (const DataType type :
       {DataType::kInt8, DataType::kUint8, DataType::kInt4, DataType::kUint4, DataType::kFp8E4M3,
        DataType::kFp8E5M2, DataType::kFp6E3M2, DataType::kFp6E2M3, DataType::kFp4E2M1,
        DataType::kNf4, DataType::kBnbFp4, DataType::kIq4Nl}) {
    QuantizedOperand operand;
    const std::int64_t codes = std::int64_t{1} << SizeBits(type);
    operand.layout = {type, 1, codes, Order::kRowMajor, codes};
    operand.codes.resize(operand.layout.size_bytes());
    for (std::int64_t code = 0; code < codes; ++code) {
      StoreCode(operand.codes.data(), SizeBits(type), code, static_cast<std::uint32_t>(code));
    }
    Case c(operand, 1, codes, true);
    EXPECT_EQ(Compare(&c, DataType::kBf16), "") << Name(type);
    EXPECT_EQ(Compare(&c, DataType::kF32), "") << Name(type);
  }
  for (const DataType type : {DataType::kE8M0, DataType::kFp8E4M3}) {
    constexpr std::int64_t kLines = 256;
    QuantizedOperand operand;
    operand.layout = {DataType::kFp4E2M1, kLines, 48, Order::kRowMajor, 48};
    operand.codes.assign(operand.layout.size_bytes(), 0x27);
    operand.scaling = {true, type, 1, 16};
    for (std::int64_t line = 0; line < kLines; ++line) {
      for (const std::int64_t scale : {line, std::int64_t{40}, (line * 7 + 3) % kLines}) {
        operand.quantized.scales.push_back(static_cast<std::uint8_t>(scale));
      }
    }
    Case c(operand, kLines, 48, true);
    EXPECT_EQ(Compare(&c, DataType::kBf16), "") << Name(type);
    EXPECT_EQ(Compare(&c, DataType::kF64), "") << Name(type);
  }
}

TEST(DequantizeRefusal, NamesFieldValueAndLimit) {
  const auto message = [](void (*change)(Dequantization*)) {
    Draws draws(1);
    Case c(draws.Lines(*FindQuantFormat("nvfp4"), 2, 32, true), 2, 32, true);
    testing::Workspace values(1024);
    c.d.values = values.data();
    c.d.output = DataType::kBf16;
    change(&c.d);
    emulator::Session session;
    LaunchTarget target;
    target.emulator = &session;
    return std::string(LaunchDequantize(c.d, target).message());
  };
  EXPECT_EQ(message([](Dequantization*) {}), "");
  EXPECT_EQ(message([](Dequantization* d) { d->lines = 0; }), "lines is 0; it must be at least 1");
  EXPECT_EQ(message([](Dequantization* d) { d->k = -1; }), "k is -1; it must be at least 1");
  EXPECT_EQ(message([](Dequantization* d) { d->k_stride = d->line_stride = 2; }),
            "k_stride is 2; it must be 1, or line_stride");
  EXPECT_EQ(message([](Dequantization* d) { d->scaling.block_k = 12; }),
            "scaling.block_k is 12; it must be a power of two of at least 8, or 0");
  EXPECT_EQ(message([](Dequantization* d) { d->scaling.block_k = 24; }),
            "scaling.block_k is 24; it must be a power of two of at least 8, or 0");
  EXPECT_EQ(message([](Dequantization* d) { d->scaling.block_lines = 3; }),
            "scaling.block_lines is 3; it must be a power of two, or 0");
  EXPECT_EQ(message([](Dequantization* d) { d->output = DataType::kInt8; }),
            "output is int8; it must be bf16, f16, f32 or f64");
  EXPECT_EQ(message([](Dequantization* d) { d->element = DataType::kInt32; }),
            "element is int32; it must be quantized, f32, f16 or bf16");
  EXPECT_EQ(message([](Dequantization* d) { d->scaling.type = DataType::kInt8; }),
            "scaling.type is int8; it must be f32, f16, bf16, e8m0 or fp8_e4m3");
  EXPECT_EQ(message([](Dequantization* d) { d->tensor_scale = nullptr; }),
            "tensor_scale is null; the operand has such a plane");
  EXPECT_EQ(message([](Dequantization* d) { d->values = static_cast<char*>(d->values) + 2; }),
            "values must be aligned to 16 bytes");
}

}  // namespace
}  // namespace gemmd
