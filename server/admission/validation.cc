#include "server/admission/validation.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

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

Wide ScaleBytes(Scaling scaling, std::int64_t count) {
  if (scaling == Scaling::kNone) return 0;
  return sizeof(float) * static_cast<Wide>(scaling == Scaling::kTensor ? 1 : count);
}

absl::Status CheckDimension(absl::string_view field, std::uint64_t value, std::uint64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return InvalidArgumentError(StrCat(field, " is ", value, "; it must be 1 to ", limit));
}

absl::Status CheckSource(absl::string_view field, const OperandSpec& operand) {
  const bool is_resident = operand.source == Source::kHandle || operand.source == Source::kDigest;
  if (is_resident && !operand.is_found) {
    const char* source = operand.source == Source::kHandle ? ".handle" : ".digest";
    return absl::UnimplementedError(
        StrCat(field, source, " is set: this server takes inline operands only"));
  }
  if (operand.has_zero_points) {
    return absl::UnimplementedError(
        StrCat(field, ".zero_points is set: this server's quantized types are symmetric"));
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
  if (operand->scales.has_value()) {
    return InvalidArgumentError(StrCat(field, ".scales is set; only a and b have scales"));
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

absl::Status CheckTypes(DataType a, DataType b) {
  if (a == b || (IsFp8(a) && IsFp8(b))) return absl::OkStatus();
  return InvalidArgumentError(StrCat("a.data.type is ", Name(a), " and b.data.type is ", Name(b),
                                     "; they must be equal, or both fp8"));
}

// The scales of A (whose vector is a column, one for each row of op(A)) or of B (a row,
// one for each column of op(B)).
absl::StatusOr<Scaling> CheckScales(absl::string_view field, const OperandSpec& operand,
                                    std::int64_t count, bool is_column) {
  if (!operand.scales.has_value()) return Scaling::kNone;
  const DataType type = operand.data.type;
  if (type == DataType::kMxfp8E4M3 || type == DataType::kInt4) {
    return absl::UnimplementedError(
        StrCat(field, ".scales is set: this server has no scales for ", Name(type), " yet"));
  }
  if (type != DataType::kInt8 && !IsFp8(type)) {
    return InvalidArgumentError(StrCat(field, ".scales is set, and ", field, ".data.type is ",
                                       Name(type),
                                       "; only int8, fp8_e4m3 and fp8_e5m2 have scales"));
  }
  const PlaneSpec& scales = *operand.scales;
  if (scales.type != DataType::kF32) {
    return InvalidArgumentError(
        StrCat(field, ".scales.type is ", Name(scales.type), "; it must be f32"));
  }
  const auto vector = static_cast<std::uint64_t>(count);
  const std::uint64_t rows = is_column ? vector : 1;
  const std::uint64_t columns = is_column ? 1 : vector;
  const bool is_tensor = scales.rows == 1 && scales.columns == 1;
  if (!is_tensor && (scales.rows != rows || scales.columns != columns)) {
    return InvalidArgumentError(StrCat(
        field, ".scales is ", scales.rows, " x ", scales.columns, "; it must be 1 x 1, or ", rows,
        " x ", columns, is_column ? ": one for each row of op(" : ": one for each column of op(",
        field, ")"));
  }
  const std::uint64_t tight = scales.order == Order::kRowMajor ? scales.columns : scales.rows;
  if (scales.leading_dimension != 0 && scales.leading_dimension != tight) {
    return InvalidArgumentError(StrCat(field, ".scales.leading_dimension is ",
                                       scales.leading_dimension, "; it must be ", tight,
                                       " or 0: scales are tightly packed"));
  }
  return is_tensor ? Scaling::kTensor : Scaling::kVector;
}

// Refuses an epilogue on int32 output, which is the exact product, and a K of int8 with which an
// int32 sum could overflow. Checked here, on the K that was sent, because kernels see it padded.
absl::Status CheckExact(const Problem& problem) {
  constexpr std::int64_t kMaxInt8K = 131071;  // of it K * 128 * 128 still fits an int32
  if (problem.a.type == DataType::kInt8 && problem.k > kMaxInt8K) {
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
  total += ScaleBytes(problem.a_scaling, problem.m) + ScaleBytes(problem.b_scaling, problem.n);
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

}  // namespace

absl::string_view Name(OperandName operand) {
  switch (operand) {
    case OperandName::kA:
      return "a";
    case OperandName::kB:
      return "b";
    case OperandName::kC:
      return "c";
    case OperandName::kBias:
      return "bias";
  }
  return "?";
}

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
  const absl::StatusOr<Scaling> a_scaling = CheckScales("a", *call.a, problem.m, true);
  if (!a_scaling.ok()) return a_scaling.status();
  const absl::StatusOr<Scaling> b_scaling = CheckScales("b", *call.b, problem.n, false);
  if (!b_scaling.ok()) return b_scaling.status();
  problem.a_scaling = *a_scaling;
  problem.b_scaling = *b_scaling;
  const bool scaled = *a_scaling != Scaling::kNone || *b_scaling != Scaling::kNone;
  if (scaled && call.output_type == DataType::kInt32) {
    return InvalidArgumentError(StrCat("output_type is int32, and ",
                                       *a_scaling != Scaling::kNone ? "a" : "b",
                                       ".scales is set; a scaled product is f32, f16 or bf16"));
  }

  const PlaneSpec output{call.output_type.value_or(DefaultOutputType(a->type, scaled)),
                         static_cast<std::uint64_t>(problem.m),
                         static_cast<std::uint64_t>(problem.n), call.output_order,
                         call.output_leading_dimension};
  const absl::StatusOr<MatrixLayout> d = ValidatePlane("output", output, limits);
  if (!d.ok()) return d.status();
  problem.d = *d;
  problem.accumulate = call.accumulate_type.value_or(DefaultAccumulateType(a->type));
  problem.determinism = call.determinism;

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
