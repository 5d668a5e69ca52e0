#include "server/admission/validation.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/admission/quantization.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// Every dimension is at most 2^31 - 1, so products of two and an element size fit here.
using Wide = unsigned __int128;

std::string ToText(Wide value) {
  constexpr Wide kMax = ~std::uint64_t{0};
  return value > kMax ? "more than 2^64" : StrCat(static_cast<std::uint64_t>(value));
}

Wide SizeBytes(const MatrixLayout& layout) {
  const Wide elements =
      static_cast<Wide>(layout.outer() - 1) * static_cast<Wide>(layout.leading_dimension) +
      static_cast<Wide>(layout.inner());
  return (elements * static_cast<Wide>(SizeBits(layout.type)) + 7) / 8;
}

absl::Status CheckDimension(absl::string_view field, std::uint64_t value, std::uint64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return InvalidArgumentError(StrCat(field, " is ", value, "; it must be 1 to ", limit));
}

absl::Status CheckSource(absl::string_view field, const OperandSpec& operand) {
  if (operand.source == Source::kResident && !operand.is_found) {
    return absl::UnimplementedError(
        StrCat(field, " is a resident operand: here it must be inline"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MatrixLayout> CheckOperand(absl::string_view field,
                                          const std::optional<OperandSpec>& operand,
                                          const RequestLimits& limits) {
  if (!operand.has_value()) return InvalidArgumentError(StrCat(field, " is missing"));
  if (absl::Status s = CheckSource(field, *operand); !s.ok()) return s;
  return ValidatePlane(StrCat(field, ".data"), operand->data, limits);
}

// C and bias: D's type, a stated shape.
absl::StatusOr<MatrixLayout> CheckAddend(absl::string_view field,
                                         const std::optional<OperandSpec>& operand,
                                         const MatrixLayout& d, std::int64_t rows,
                                         const RequestLimits& limits) {
  absl::StatusOr<MatrixLayout> layout = CheckOperand(field, operand, limits);
  if (!layout.ok()) return layout;
  if (layout->rows != rows || layout->columns != d.columns) {
    return InvalidArgumentError(StrCat(field, " is ", layout->rows, " x ", layout->columns,
                                       "; it must be ", rows, " x ", d.columns));
  }
  if (operand->k_order != nullptr) {
    return InvalidArgumentError(StrCat(field, ".k_order is set; only a and b have an order of K"));
  }
  const char* const scaled = operand->scales.has_value()         ? ".scales"
                             : operand->zero_points.has_value()  ? ".zero_points"
                             : operand->tensor_scale.has_value() ? ".tensor_scale"
                             : operand->offsets.has_value()      ? ".offsets"
                             : operand->blocks.has_value()       ? ".quantization"
                                                                 : nullptr;
  if (scaled != nullptr) {
    return InvalidArgumentError(StrCat(field, scaled, " is set; only a and b have scales"));
  }
  if (layout->type != d.type) {
    return InvalidArgumentError(StrCat(field, ".data.type is ", Name(layout->type),
                                       "; it must be the output type, ", Name(d.type)));
  }
  return layout;
}

absl::Status CheckFactor(absl::string_view field, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return InvalidArgumentError(StrCat(field, " is ", value, "; it must be finite"));
}

bool IsFp8(DataType type) { return type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2; }

// Returns whether kernels have always taken such types, with scales or without.
bool IsPlainPair(DataType a, DataType b) {
  if (IsFp8(a) && IsFp8(b)) return true;
  return a == b && (a == DataType::kInt8 || !IsQuantizedType(a));
}

absl::Status CheckTypes(DataType a, DataType b) {
  for (const auto& [field, type] : {std::make_pair("a", a), std::make_pair("b", b)}) {
    if (type == DataType::kMxfp8E4M3) {
      return absl::UnimplementedError(StrCat(field, ".data.type is mxfp8_e4m3: send fp8_e4m3 with ",
                                             field, ".scales of e8m0 and ", field,
                                             ".quantization.block_k 32, which is the same"));
    }
    if (type == DataType::kE8M0) {
      return InvalidArgumentError(StrCat(field, ".data.type is e8m0, which only scales may be"));
    }
  }
  const auto is_real = [](DataType type) {
    return type == DataType::kF32 || type == DataType::kF16 || type == DataType::kBf16;
  };
  const bool is_quantized_a = IsQuantizedType(a);
  const bool is_quantized_b = IsQuantizedType(b);
  if (IsPlainPair(a, b) || (is_quantized_a && is_quantized_b) || (is_quantized_a && is_real(b)) ||
      (is_real(a) && is_quantized_b)) {
    return absl::OkStatus();
  }
  return InvalidArgumentError(
      StrCat("a.data.type is ", Name(a), " and b.data.type is ", Name(b),
             "; they must be equal, or both quantized, or one quantized and the other f32, f16 or "
             "bf16"));
}

// Returns whether only kernels for quantized operands take the problem: not sums of whole lines of
// int8 or fp8.
bool NeedsDecoding(const Problem& problem) {
  return (IsQuantizedType(problem.a.type) || IsQuantizedType(problem.b.type)) &&
         !(IsPlainPair(problem.a.type, problem.b.type) && problem.a_scaling.scales_whole_lines() &&
           problem.b_scaling.scales_whole_lines());
}

// Integers with offsets are no multiples of their scales: their sums are no integers.
DataType UsualSum(const Problem& problem) {
  if (problem.a_scaling.has_offsets || problem.b_scaling.has_offsets) return DataType::kF32;
  return DefaultAccumulateType(problem.a.type, problem.b.type);
}

absl::Status CheckQuantized(const Problem& problem) {
  if (!NeedsDecoding(problem)) return absl::OkStatus();
  const DataType a = problem.a.type;
  const DataType b = problem.b.type;
  const std::string types =
      StrCat(Name(a), " times ", Name(b),
             problem.a_scaling.has_offsets || problem.b_scaling.has_offsets ? " with offsets" : "");
  if (!problem.a_scaling.has_scales && !problem.b_scaling.has_scales) {
    return InvalidArgumentError(
        StrCat("a.scales and b.scales are missing; ", types, " goes with scales of one or both"));
  }
  const bool are_integers =
      HasIntegerSums({a, problem.a_scaling}) && HasIntegerSums({b, problem.b_scaling});
  const DataType sum = problem.accumulate;
  if (sum != DataType::kF32 && sum != DataType::kF64 &&
      !(are_integers && sum == DataType::kInt32)) {
    return InvalidArgumentError(
        StrCat("accumulate_type is ", Name(sum), "; of ", types,
               are_integers ? " it must be int32, f32 or f64" : " it must be f32 or f64"));
  }
  const DataType d = problem.d.type;
  const bool is_f64 = d == DataType::kF64 && sum == DataType::kF64;
  if (d != DataType::kF32 && d != DataType::kF16 && d != DataType::kBf16 && !is_f64) {
    return InvalidArgumentError(StrCat("output_type is ", Name(d), "; of ", types, " with sums in ",
                                       Name(sum), " it must be ",
                                       sum == DataType::kF64 ? "f64, " : "", "f32, f16 or bf16"));
  }
  return absl::OkStatus();
}

// Refuses an epilogue on int32 output, which is the exact product, and a K of int8 with which an
// int32 sum could overflow. Checked here, on the K that was sent, because kernels see it padded.
absl::Status CheckExact(const Problem& problem) {
  constexpr std::int64_t kMaxInt8K = 131071;  // of it K * 128 * 128 still fits an int32
  if (problem.a.type == DataType::kInt8 && !NeedsDecoding(problem) && problem.k > kMaxInt8K) {
    return InvalidArgumentError(StrCat("the inner dimension is ", problem.k,
                                       "; of int8 it must be 1 to ", kMaxInt8K,
                                       ", for which int32 holds every sum"));
  }
  if (problem.d.type != DataType::kInt32) return absl::OkStatus();
  const Epilogue& e = problem.epilogue;
  std::string asked;
  if (e.alpha != 1) asked = StrCat("alpha is ", e.alpha);
  if (asked.empty() && e.beta != 0) asked = StrCat("beta is ", e.beta);
  if (asked.empty() && e.has_bias) asked = "bias is set";
  if (asked.empty() && e.activation != Activation::kNone) {
    asked = StrCat("activation is ", Name(e.activation));
  }
  if (asked.empty()) return absl::OkStatus();
  return InvalidArgumentError(StrCat("output_type is int32, and ", asked,
                                     "; int32 is the exact product: ask for f32, f16 or bf16"));
}

absl::Status CheckSizes(const MatmulCall& call, const Problem& problem,
                        const RequestLimits& limits) {
  const Wide d = SizeBytes(problem.d);
  const bool is_sent_back = !call.keep_result.has_value() && !call.output.has_value();
  if (d > limits.result_bytes && is_sent_back) {
    return InvalidArgumentError(
        StrCat("d is ", problem.m, " x ", problem.n, " ", Name(problem.d.type), ", ", ToText(d),
               " bytes; a unary response carries at most ", limits.result_bytes));
  }
  Wide total = SizeBytes(problem.a) + SizeBytes(problem.b) + d;
  if (call.c.has_value()) total += SizeBytes(problem.c);
  total += PlaneBytes(problem, WorkPlane::kBias);
  total += ScaleBytes(problem);
  if (total > limits.request_bytes) {
    return InvalidArgumentError(StrCat("the operands and the result take ", ToText(total),
                                       " bytes; one request may take ", limits.request_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckVerification(const MatmulCall& call) {
  if (call.verification_vectors > VerificationOptions::kMaxVectors) {
    return InvalidArgumentError(StrCat("verification.vectors is ", call.verification_vectors,
                                       "; it must be 0 to ", VerificationOptions::kMaxVectors));
  }
  if (call.verification_vectors != 0 && call.activation != Activation::kNone) {
    return InvalidArgumentError(StrCat("verification.vectors is ", call.verification_vectors,
                                       ", and activation is ", Name(call.activation),
                                       "; only products without activation are verified"));
  }
  return absl::OkStatus();
}

// The dimension of an operand that the sum runs along.
template <typename Call>
auto& InnerOfA(Call& call) {
  return call.transpose_a ? call.a->data.rows : call.a->data.columns;
}
template <typename Call>
auto& InnerOfB(Call& call) {
  return call.transpose_b ? call.b->data.columns : call.b->data.rows;
}

// Returns whether K is 0, and so nothing comes of A and B.
bool HasNoSum(const MatmulCall& call) {
  const auto is_inline = [](const std::optional<OperandSpec>& operand) {
    return operand.has_value() && operand->source == Source::kInline;
  };
  return is_inline(call.a) && is_inline(call.b) && InnerOfA(call) == 0 && InnerOfB(call) == 0;
}

// REQUIRES: HasNoSum().
MatmulCall WithSumOfZeros(MatmulCall call) {
  InnerOfA(call) = InnerOfB(call) = 1;
  call.a->data.leading_dimension = call.b->data.leading_dimension = 0;
  return call;
}

}  // namespace

absl::StatusOr<MatrixLayout> ValidatePlane(absl::string_view field, const PlaneSpec& plane,
                                           const RequestLimits& limits) {
  const std::uint64_t limit = limits.dimension;
  if (absl::Status s = CheckDimension(StrCat(field, ".rows"), plane.rows, limit); !s.ok()) return s;
  if (absl::Status s = CheckDimension(StrCat(field, ".columns"), plane.columns, limit); !s.ok()) {
    return s;
  }
  MatrixLayout layout{plane.type, static_cast<std::int64_t>(plane.rows),
                      static_cast<std::int64_t>(plane.columns), plane.order, 0};
  const auto inner = static_cast<std::uint64_t>(layout.inner());
  const std::uint64_t leading = plane.leading_dimension == 0 ? inner : plane.leading_dimension;
  if (leading < inner || leading > limit) {
    return InvalidArgumentError(StrCat(field, ".leading_dimension is ", leading, "; it must be ",
                                       inner, " (the ",
                                       plane.order == Order::kRowMajor ? "columns" : "rows",
                                       " of this ", Name(plane.order), " plane) to ", limit));
  }
  layout.leading_dimension = static_cast<std::int64_t>(leading);
  return layout;
}

absl::StatusOr<Problem> ValidateHeader(const MatmulCall& call, const RequestLimits& limits) {
  if (HasNoSum(call)) return ValidateHeader(WithSumOfZeros(call), limits);
  if (absl::Status s = CheckVerification(call); !s.ok()) return s;
  const absl::StatusOr<MatrixLayout> a = CheckOperand("a", call.a, limits);
  if (!a.ok()) return a.status();
  const absl::StatusOr<MatrixLayout> b = CheckOperand("b", call.b, limits);
  if (!b.ok()) return b.status();

  Problem problem;
  problem.a = *a;
  problem.b = *b;
  problem.transpose_a = call.transpose_a;
  problem.transpose_b = call.transpose_b;
  problem.m = call.transpose_a ? a->columns : a->rows;
  problem.k = call.transpose_a ? a->rows : a->columns;
  problem.n = call.transpose_b ? b->rows : b->columns;
  const std::int64_t b_inner = call.transpose_b ? b->columns : b->rows;
  if (problem.k != b_inner) {
    return InvalidArgumentError(StrCat("op(a) is ", problem.m, " x ", problem.k, " and op(b) is ",
                                       b_inner, " x ", problem.n, ": the inner dimensions ",
                                       problem.k, " and ", b_inner, " must be equal"));
  }
  if (absl::Status s = CheckTypes(a->type, b->type); !s.ok()) return s;
  const absl::StatusOr<Scaling> a_scaling = CheckScaling("a", *call.a, {true, !call.transpose_a});
  if (!a_scaling.ok()) return a_scaling.status();
  const absl::StatusOr<Scaling> b_scaling = CheckScaling("b", *call.b, {false, call.transpose_b});
  if (!b_scaling.ok()) return b_scaling.status();
  problem.a_scaling = *a_scaling;
  problem.b_scaling = *b_scaling;
  const bool scaled = *a_scaling != Scaling::kNone || *b_scaling != Scaling::kNone;
  if (scaled && call.output_type == DataType::kInt32) {
    return InvalidArgumentError(StrCat("output_type is int32, and ",
                                       *a_scaling != Scaling::kNone ? "a" : "b",
                                       ".scales is set; a scaled product is f32, f16 or bf16"));
  }

  const PlaneSpec output{call.output_type.value_or(DefaultOutputType(a->type, b->type, scaled)),
                         static_cast<std::uint64_t>(problem.m),
                         static_cast<std::uint64_t>(problem.n), call.output_order,
                         call.output_leading_dimension};
  const absl::StatusOr<MatrixLayout> d = ValidatePlane("output", output, limits);
  if (!d.ok()) return d.status();
  problem.d = *d;
  problem.accumulate = call.accumulate_type.value_or(UsualSum(problem));
  problem.determinism = call.determinism;
  if (absl::Status s = CheckQuantized(problem); !s.ok()) return s;

  if (absl::Status s = CheckFactor("alpha", call.alpha); !s.ok()) return s;
  if (absl::Status s = CheckFactor("beta", call.beta); !s.ok()) return s;
  problem.epilogue.alpha = call.alpha;
  problem.epilogue.beta = call.beta;
  problem.epilogue.activation = call.activation;
  problem.c = problem.d;
  if (call.beta != 0 && !call.c.has_value()) {
    return InvalidArgumentError(StrCat("c is missing, and beta is ", call.beta));
  }
  if (call.c.has_value()) {
    const absl::StatusOr<MatrixLayout> c = CheckAddend("c", call.c, problem.d, problem.m, limits);
    if (!c.ok()) return c.status();
    problem.c = *c;
  }
  if (call.bias.has_value()) {
    const absl::StatusOr<MatrixLayout> bias = CheckAddend("bias", call.bias, problem.d, 1, limits);
    if (!bias.ok()) return bias.status();
    if (bias->order != Order::kRowMajor) {
      return InvalidArgumentError("bias.data.order is column_major; it must be row_major");
    }
    problem.epilogue.has_bias = true;
  }
  if (absl::Status s = CheckExact(problem); !s.ok()) return s;
  if (call.keep_result.has_value() && call.output.has_value()) {
    return InvalidArgumentError("output is set, and keep_result too; D goes to one place");
  }
  if (call.keep_result.has_value() && problem.d.leading_dimension != problem.d.inner()) {
    return InvalidArgumentError(StrCat("output_leading_dimension is ", problem.d.leading_dimension,
                                       ", and keep_result is set; it must be ", problem.d.inner(),
                                       " or 0: kept results are tightly packed"));
  }
  if (absl::Status s = CheckSizes(call, problem, limits); !s.ok()) return s;
  return problem;
}

}  // namespace gemmd
