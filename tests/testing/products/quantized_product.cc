#include "tests/testing/products/quantized_product.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gtest/gtest.h"
#include "kernels/cpu/operand_view.h"
#include "kernels/cpu/row_gemm.h"
#include "kernels/verify/error_bound.h"
#include "tests/testing/products/exact_product.h"
#include "tests/testing/products/reference.h"

namespace gemmd::testing {
namespace {

// The largest scale or offset of a line, or element where there are none.
double LargestOfLine(const QuantizedView& view, std::int64_t line) {
  double largest = 0;
  for (std::int64_t k = 0; k < view.k; ++k) {
    if (!view.format.scaling.has_scales) {
      largest = std::max(largest, std::abs(view.value(line, k)));
    } else {
      largest = std::max({largest, std::abs(view.scale(line, k)), std::abs(view.offset(line, k))});
    }
  }
  return largest;
}

// Gives some blocks numbers that no encoder makes: scales of the other sign, where they may have
// one, and the zero point 16.
void ChangeSomeBlocks(Draws* draws, QuantizedMatrix* matrix) {
  if (matrix->format.element == DataType::kUint4) {
    for (std::uint8_t& zero_point : matrix->zero_points) {
      if (draws->Below(8) == 0) zero_point = 16;
    }
  }
  const DataType type = matrix->format.scaling.type;
  if (type == DataType::kE8M0 || type == DataType::kFp8E4M3) return;
  const int bits = SizeBits(type);
  const std::int64_t count = matrix->format.scaling.count(matrix->lines, matrix->k);
  for (std::int64_t i = 0; i < count; ++i) {
    if (draws->Below(4) != 0) continue;
    const std::uint32_t code = LoadCode(matrix->scales.data(), bits, i);
    StoreCode(matrix->scales.data(), bits, i, code ^ FormatOf(type)->sign_bit());
  }
}

}  // namespace

QuantizedOperand Draws::Lines(const QuantFormat& format, std::int64_t lines, std::int64_t k,
                              bool is_a, const Limits& limits) {
  std::vector<float> values;
  const auto exponent = static_cast<int>(Below(12)) - 6;
  for (std::int64_t i = 0; i < lines * k; ++i) {
    const double value = Below(9) == 0 ? 0 : std::ldexp(Normal(), exponent);
    const double drawn = Below(40) == 0 ? value * 30 : value;
    values.push_back(static_cast<float>(HasSign(format) ? drawn : std::abs(drawn)));
  }
  QuantizedOperand operand;
  operand.scaling = format.scaling;
  if (operand.scaling.has_scales) {
    const DataType type = operand.scaling.type;
    const bool has_tiles = type == DataType::kE8M0 || type == DataType::kFp8E4M3;
    if (limits.is_on_the_wire ? operand.scaling.block_k != kWhole
                              : !operand.scaling.scales_whole_lines()) {
      const bool any = (has_tiles || !limits.is_on_the_wire) && !limits.is_untiled;
      operand.scaling.order = static_cast<ScaleOrder>(Below(any ? 3 : 2));
    }
    const absl::StatusOr<QuantizedMatrix> quantized =
        Quantize({format.element, operand.scaling}, {values.data(), lines, k, k});
    EXPECT_TRUE(quantized.ok());
    operand.quantized = *quantized;
    ChangeSomeBlocks(this, &operand.quantized);
  }
  operand.transpose = Below(2) == 0;
  const bool lines_are_rows = is_a != operand.transpose;
  operand.layout = {format.element, lines_are_rows ? lines : k, lines_are_rows ? k : lines,
                    Below(2) == 0 ? Order::kRowMajor : Order::kColumnMajor, 0};
  if (limits.is_k_major) {
    operand.layout.order = lines_are_rows ? Order::kRowMajor : Order::kColumnMajor;
  }
  operand.layout.leading_dimension =
      operand.layout.inner() + (limits.is_tight || Below(2) == 0 ? 0 : Below(9));
  operand.codes.resize(operand.layout.size_bytes());
  const std::int64_t row_stride = operand.layout.row_stride();
  const std::int64_t column_stride = operand.layout.column_stride();
  const int bits = SizeBits(format.element);
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t at = 0; at < k; ++at) {
      const std::uint32_t code =
          operand.scaling.has_scales
              ? operand.quantized.view().code(line, at)
              : EncodeElement(format.element, values[static_cast<std::size_t>(line * k + at)], 0,
                              {}, 0);
      StoreCode(operand.codes.data(), bits,
                lines_are_rows ? line * row_stride + at * column_stride
                               : at * row_stride + line * column_stride,
                code);
    }
  }
  return operand;
}

Arguments QuantizedProduct::arguments() {
  Arguments to;
  to.a = a.codes.data();
  to.b = b.codes.data();
  to.c = problem.epilogue.beta != 0 ? c.data() : nullptr;
  to.bias = problem.epilogue.has_bias ? bias.data() : nullptr;
  to.d = d.data();
  const auto planes = [](const QuantizedOperand& from, const void** scales,
                         const void** zero_points, const float** tensor_scale,
                         const void** offsets) {
    if (!from.scaling.has_scales) return;
    *scales = from.quantized.scales.data();
    if (from.scaling.has_zero_points) *zero_points = from.quantized.zero_points.data();
    if (from.scaling.has_tensor_scale) *tensor_scale = &from.quantized.tensor_scale;
    if (from.scaling.has_offsets) *offsets = from.quantized.offsets.data();
  };
  planes(a, &to.a_scales, &to.a_zero_points, &to.a_tensor_scale, &to.a_offsets);
  planes(b, &to.b_scales, &to.b_zero_points, &to.b_tensor_scale, &to.b_offsets);
  return to;
}

QuantizedProduct MakeQuantizedProduct(QuantizedOperand a, QuantizedOperand b, std::int64_t m,
                                      std::int64_t n, std::int64_t k, DataType accumulate,
                                      DataType output) {
  QuantizedProduct product;
  Problem& problem = product.problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a = a.layout;
  problem.b = b.layout;
  problem.transpose_a = a.transpose;
  problem.transpose_b = b.transpose;
  problem.a_scaling = a.scaling;
  problem.b_scaling = b.scaling;
  problem.accumulate = accumulate;
  problem.d = problem.c = {output, m, n, Order::kRowMajor, n};
  product.a = std::move(a);
  product.b = std::move(b);
  product.d = PoisonedPlane(problem.d);
  return product;
}

DataType UsualSum(const QuantFormat& a, const QuantFormat& b) {
  return HasIntegerSums(a) && HasIntegerSums(b) ? DataType::kInt32 : DataType::kF32;
}

QuantizedProduct DrawBlockScaledProduct(Draws* draws, std::uint32_t seed) {
  constexpr DataType kElements[] = {DataType::kFp8E4M3, DataType::kFp8E5M2};
  constexpr DataType kOutputs[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  Draws::Limits limits;
  limits.is_tight = limits.is_on_the_wire = limits.is_k_major = true;
  const std::int64_t m = 16 * (1 + draws->Below(4));
  const std::int64_t n = 16 * (1 + draws->Below(4));
  const std::int64_t k = 512 * (1 + draws->Below(2)) - 16 * draws->Below(3);
  const std::int64_t square = draws->Below(3);  // the operand with square blocks; 2: none
  const std::int64_t e5m2 = draws->Below(3);    // the one of fp8_e5m2
  // Square blocks along lines are transposed four at a time.
  const std::int64_t lines = draws->Below(4) == 0 ? 400 : 0;
  const auto format = [&](std::int64_t operand) {
    Scaling scaling = Scaling::kVector;
    scaling.block_k = 128;
    scaling.block_lines = operand == square ? 128 : 1;
    return QuantFormat{kElements[operand == e5m2 ? 1 : 0], scaling};
  };
  const std::int64_t rows = square == 0 ? m + lines : m;
  const std::int64_t columns = square == 1 ? n + lines : n;
  QuantizedProduct product =
      MakeQuantizedProduct(draws->Lines(format(0), rows, k, true, limits),
                           draws->Lines(format(1), columns, k, false, limits), rows, columns, k,
                           DataType::kF32, kOutputs[draws->Below(3)]);
  Epilogue& e = product.problem.epilogue;
  if (draws->Below(2) == 0) e.alpha = draws->Normal();
  if (draws->Below(3) == 0) e.beta = draws->Normal();
  e.has_bias = draws->Below(3) == 0;
  product.c = RandomPlane(product.problem.c, Distribution::kNormal, seed);
  product.bias = RandomPlane({product.problem.d.type, 1, columns, Order::kRowMajor, columns},
                             Distribution::kNormal, seed + 1);
  return product;
}

namespace {

// A kernel's stated bound, before D is rounded.
struct SumBound {
  double relative = 0;       // of the sum of magnitudes
  bool loses_small = false;  // values that vanish beside their line's largest scale
};

SumBound SumBoundOf(const Problem& problem, const std::string& kernel) {
  const auto k = static_cast<double>(problem.k);
  const bool is_f64 = absl::StrContains(kernel, "f64");
  if (absl::StartsWith(kernel, "dequantize/")) {
    if (is_f64) {
      // D is rounded to f32 on its way to fewer bits.
      const double narrowing = problem.d.type == DataType::kF64 ? 0 : 0x1p-24;
      return {(k + 12) * 0x1p-53 + narrowing, false};
    }
    // Sums of tensor cores and of f32 have the bound of kernels/verify/freivalds.h.
    return {(k / 8 + 12) * 0x1p-23, true};
  }
  // Eight steps of tensor cores in a group, then a rounding for each; or all of K in one chain
  // (hopper/quant/quant_registry.h).
  if (kernel == "sm90/packed_mxfp4" || kernel == "sm90/packed_nvfp4") {
    const double tensor_scale = problem.b_scaling.has_tensor_scale ? 0x1p-24 : 0;
    return {18 * (k / 16) * 0x1p-24 + tensor_scale + 0x1p-22, true};
  }
  if (absl::StartsWith(kernel, "sm90/packed_")) {
    return {(144 + k / 128) * 0x1p-24 + 0x1p-22, true};
  }
  // Far from the worst case of docs/numerics.md, as those of cuBLASLt are.
  if (kernel == "cublaslt/fp8_blocks" || absl::StartsWith(kernel, "sm90/fp8_")) {
    return {(k + 4) * 0x1p-24 + 0x1p-9, false};
  }
  if (absl::StartsWith(kernel, "sm90/int8_")) {
    return {problem.d.type == DataType::kInt32 ? 0 : 0x1p-20, false};
  }
  if (kernel == "cpu/quantized_int") {
    const double pieces =
        std::ceil(k / 256) + static_cast<double>(problem.a_scaling.k_blocks(problem.k) +
                                                 problem.b_scaling.k_blocks(problem.k));
    return {(pieces + 8) * 0x1p-53, false};
  }
  const bool is_f32 = absl::StrContains(kernel, "f32") || absl::StrContains(kernel, "fp8");
  const auto roundings = static_cast<double>(is_f32 ? RowGemmRoundings<float>(problem.k)
                                                    : RowGemmRoundings<double>(problem.k));
  return {(roundings + 8) * (is_f32 ? 0x1p-24 : 0x1p-53), is_f32};
}

}  // namespace

std::string CheckQuantizedProduct(QuantizedProduct* product, const std::string& kernel) {
  const Problem& problem = product->problem;
  const Epilogue& e = problem.epilogue;
  const Arguments arguments = product->arguments();
  const QuantizedView a = ViewOfA(problem, arguments);
  const QuantizedView b = ViewOfB(problem, arguments);
  const ExactProductResult exact = ExactProduct(a, b);
  const SumBound sum = SumBoundOf(problem, kernel);
  const std::optional<double> of_receipt = ErrorBound(
      problem,
      {false, absl::StartsWith(kernel, "cublaslt/"), absl::StartsWith(kernel, "sm90/fp8_")});
  if (of_receipt.has_value() && sum.relative > *of_receipt) {
    return absl::StrCat(kernel, " ", ToString(problem), ": the receipt's bound ", *of_receipt,
                        " is below the kernel's, ", sum.relative);
  }
  const double half_ulp = problem.d.type == DataType::kF64   ? 0x1p-53
                          : problem.d.type == DataType::kF32 ? 0x1p-24
                          : problem.d.type == DataType::kF16 ? 0x1p-11
                                                             : 0x1p-8;
  const double smallest = problem.d.type == DataType::kF16 ? 0x1p-25 : 0x1p-134;
  const MatrixLayout bias_layout = {problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
  for (std::int64_t row = 0; row < problem.m; ++row) {
    for (std::int64_t column = 0; column < problem.n; ++column) {
      const auto at = static_cast<std::size_t>(row * problem.n + column);
      double wanted = e.alpha * exact.d[at];
      double magnitude = std::abs(e.alpha) * exact.magnitude[at];
      if (e.beta != 0) {
        const double c = e.beta * LoadElement(problem.c, arguments.c, row, column);
        wanted += c;
        magnitude += std::abs(c);
      }
      if (e.has_bias) {
        const double bias = LoadElement(bias_layout, arguments.bias, 0, column);
        wanted += bias;
        magnitude += std::abs(bias);
      }
      const double lost = sum.loses_small
                              ? static_cast<double>(problem.k) * 0x1p-132 * std::abs(e.alpha) *
                                    LargestOfLine(a, row) * LargestOfLine(b, column)
                              : 0;
      const double computed = sum.relative * magnitude + lost;
      const double bound =
          computed + half_ulp * (std::abs(wanted) + computed) + smallest + 0x1p-53 * magnitude;
      const double stored = LoadElement(problem.d, arguments.d, row, column);
      if (problem.d.type == DataType::kF16 && magnitude > 60000) continue;
      if (!(std::abs(stored - wanted) <= bound)) {
        return absl::StrCat(kernel, " ", ToString(problem), ": D(", row, ", ", column, ") is ",
                            stored, ", not ", wanted, " within ", bound);
      }
    }
  }
  return "";
}

QuantFormat Partner(Draws* draws) {
  constexpr DataType kReal[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  if (draws->Below(3) == 0) return {kReal[draws->Below(3)], Scaling::kNone};
  const auto formats = QuantFormats();
  return formats[static_cast<std::size_t>(draws->Below(static_cast<std::int64_t>(formats.size())))]
      .format;
}

}  // namespace gemmd::testing
