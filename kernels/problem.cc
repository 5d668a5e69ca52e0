#include "kernels/problem.h"

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

MatrixLayout Tight(DataType type, std::int64_t rows, std::int64_t columns) {
  return {type, rows, columns, Order::kRowMajor, columns};
}

}  // namespace

std::string ToString(const Problem& problem) {
  const Epilogue& e = problem.epilogue;
  std::string text =
      absl::StrCat(problem.m, "x", problem.n, "x", problem.k, " ", Name(problem.a.type), ",",
                   Name(problem.b.type), "->", Name(problem.d.type), " ",
                   problem.a_is_k_major() ? "k" : "m", problem.b_is_k_major() ? "k" : "n");
  if (problem.a_scaling != Scaling::kNone || problem.b_scaling != Scaling::kNone) {
    absl::StrAppend(&text, " scales=", Name(problem.a_scaling), ",", Name(problem.b_scaling));
  }
  if (problem.b_packing != Packing::kNone) absl::StrAppend(&text, " packed");
  if (e.alpha != 1) absl::StrAppend(&text, " alpha=", e.alpha);
  if (e.beta != 0) absl::StrAppend(&text, " beta=", e.beta);
  if (e.has_bias) absl::StrAppend(&text, " bias");
  if (e.activation != Activation::kNone) absl::StrAppend(&text, " ", Name(e.activation));
  return text;
}

Problem MakeProblem(std::int64_t m, std::int64_t n, std::int64_t k, DataType type,
                    DataType output_type, bool transpose_a, bool transpose_b) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.a = transpose_a ? Tight(type, k, m) : Tight(type, m, k);
  problem.b = transpose_b ? Tight(type, n, k) : Tight(type, k, n);
  problem.d = Tight(output_type, m, n);
  problem.c = problem.d;
  problem.transpose_a = transpose_a;
  problem.transpose_b = transpose_b;
  problem.accumulate = DefaultAccumulateType(type);
  return problem;
}

DataType DefaultOutputType(DataType operand_type, bool scaled) {
  switch (operand_type) {
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kUint8:
    case DataType::kUint4:
      return scaled ? DataType::kF32 : DataType::kInt32;
    case DataType::kTf32:
      return DataType::kF32;
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
    case DataType::kMxfp8E4M3:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      return DataType::kBf16;
    case DataType::kF64:
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kBf16:
    case DataType::kInt32:
    case DataType::kE8M0:
      break;
  }
  return operand_type;
}

DataType DefaultAccumulateType(DataType operand_type) {
  switch (operand_type) {
    case DataType::kF64:
      return DataType::kF64;
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kInt32:
      return DataType::kInt32;
    case DataType::kF32:
    case DataType::kTf32:
    case DataType::kF16:
    case DataType::kBf16:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
    case DataType::kMxfp8E4M3:
    case DataType::kE8M0:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      break;
  }
  return DataType::kF32;
}

DataType DefaultOutputType(DataType a, DataType b, bool scaled) {
  const bool is_of_b = IsQuantizedType(a) && !IsQuantizedType(b);
  return DefaultOutputType(is_of_b ? b : a, scaled);
}

DataType DefaultAccumulateType(DataType a, DataType b) {
  const DataType of_a = DefaultAccumulateType(a);
  return of_a == DefaultAccumulateType(b) ? of_a : DataType::kF32;
}

}  // namespace gemmd
