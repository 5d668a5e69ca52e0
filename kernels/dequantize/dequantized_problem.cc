#include "kernels/dequantize/dequantized_problem.h"

#include "absl/algorithm/container.h"
#include "base/math.h"
#include "base/numbers/fp8.h"
#include "base/numbers/quant/code_table.h"
#include "base/numbers/quant/elements.h"
#include "kernels/dequantize/dequantize.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kAlignment = 256;

// Significant bits of a float's values.
int SignificandBits(DataType type) { return FormatOf(type)->fraction_bits + 1; }

bool HoldsTable(DataType type, const CodeTable& table) {
  return absl::c_all_of(table, [&](float value) {
    return DecodeElement(type, EncodeElement(type, value, 0, {}, 0)) == value;
  });
}

// Returns whether the values of the operand, which have no line factor, are exact in that type.
// Integers less a zero point are at most 255 in magnitude, so 8 bits.
bool IsExactIn(DataType type, DataType element, const Scaling& scaling, std::int64_t k) {
  if (!IsQuantizedType(element)) return element == type;
  if (const CodeTable* const table = CodeTableOf(element)) {
    return !HasBlockFactors(scaling, k) && HoldsTable(type, *table);
  }
  // Every code of 8 bits is exact in either; the exponents of fp8_e5m2 are those of f16.
  if (!HasBlockFactors(scaling, k)) return true;
  // The range of f16 is too small for block factors.
  if (type != DataType::kBf16 || IsQuantizedInteger(element)) return false;
  if (scaling.type == DataType::kE8M0) return true;
  constexpr int kBf16Bits = 8;
  return scaling.type == DataType::kFp8E4M3 &&
         SignificandBits(element) + SignificandBits(DataType::kFp8E4M3) <= kBf16Bits;
}

MatrixLayout Lines(DataType type, std::int64_t lines, std::int64_t k) {
  return {type, lines, k, Order::kRowMajor, DequantizedPitch(k)};
}

std::uint64_t BytesOf(const MatrixLayout& layout) {
  return static_cast<std::uint64_t>(layout.outer() * layout.leading_dimension) *
         static_cast<std::uint64_t>(SizeBits(layout.type)) / 8;
}

// The product of values, before it is known which operands are decoded.
Problem ProductOf(const Problem& problem, DataType type) {
  Problem product;
  product.m = problem.m;
  product.n = problem.n;
  product.k = problem.k;
  product.a = problem.a;
  product.b = problem.b;
  product.transpose_a = problem.transpose_a;
  product.transpose_b = problem.transpose_b;
  product.accumulate = type == DataType::kF64 ? DataType::kF64 : DataType::kF32;
  product.d = problem.d;
  product.d.type = product.accumulate;
  product.d.leading_dimension = DequantizedPitch(product.d.inner());
  product.c = product.d;
  product.determinism = problem.determinism;
  return product;
}

}  // namespace

bool IsDequantized(const Problem& problem) {
  if (problem.b_packing != Packing::kNone) return false;
  const DataType a = problem.a.type;
  const DataType b = problem.b.type;
  if (!IsQuantizedType(a) && !IsQuantizedType(b)) return false;
  const bool are_alike = (a == DataType::kInt8 && b == DataType::kInt8) || (IsFp8(a) && IsFp8(b));
  return !(are_alike && problem.a_scaling.scales_whole_lines() &&
           problem.b_scaling.scales_whole_lines());
}

DataType DequantizedType(const Problem& problem) {
  if (problem.accumulate != DataType::kF32) return DataType::kF64;
  for (const DataType type : {DataType::kBf16, DataType::kF16}) {
    if (IsExactIn(type, problem.a.type, problem.a_scaling, problem.k) &&
        IsExactIn(type, problem.b.type, problem.b_scaling, problem.k)) {
      return type;
    }
  }
  return DataType::kF32;
}

DequantizedLayout::DequantizedLayout(const Problem& problem)
    : type(DequantizedType(problem)), product(ProductOf(problem, type)) {
  std::uint64_t end = 0;
  const auto add = [&end](std::uint64_t bytes) {
    const std::uint64_t begin = end;
    end += RoundUp(bytes, kAlignment);
    return begin;
  };
  const auto add_operand = [&](const Scaling& scaling, const MatrixLayout& values) {
    Operand operand;
    operand.is_decoded = true;
    operand.values = add(BytesOf(values));
    if (!scaling.has_scales) return operand;
    const std::uint64_t bytes = sizeof(float) * static_cast<std::uint64_t>(values.rows);
    operand.line_scales = operand.line_factors = add(bytes);
    if (scaling.has_tensor_scale) operand.line_factors = add(bytes);
    return operand;
  };
  if (problem.a.type != type) {
    product.a = Lines(type, problem.m, problem.k);
    product.transpose_a = false;
    a = add_operand(problem.a_scaling, product.a);
  }
  if (problem.b.type != type) {
    product.b = Lines(type, problem.n, problem.k);
    product.transpose_b = true;
    b = add_operand(problem.b_scaling, product.b);
  }
  sums = add(BytesOf(product.d));
  workspace = end;
}

}  // namespace gemmd
