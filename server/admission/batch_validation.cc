#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/admission/validation.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// Strides have 64 bits and counts 24, so every size in bits fits.
using Wide = unsigned __int128;

struct StridedOperand {
  absl::string_view field;  // of the stride
  absl::string_view operand;
  const std::optional<OperandSpec>& spec;
  MatrixLayout one;
  std::uint64_t stride = 0;
  std::int64_t* checked = nullptr;
};

std::int64_t Elements(const MatrixLayout& one) {
  return (one.outer() - 1) * one.leading_dimension + one.inner();
}

Wide BytesOf(const MatrixLayout& one, std::uint64_t count, std::uint64_t stride) {
  const Wide elements = static_cast<Wide>(count - 1) * stride + static_cast<Wide>(Elements(one));
  return (elements * static_cast<Wide>(SizeBits(one.type)) + 7) / 8;
}

// Planes that go with an operand's data.
Wide BytesWithData(const Problem& problem, absl::Span<const WorkPlane> planes) {
  Wide bytes = 0;
  for (const WorkPlane plane : planes.subspan(1)) bytes += PlaneBytes(problem, plane);
  return bytes;
}

absl::Status CheckStride(const StridedOperand& operand) {
  if (operand.stride == 0) return absl::OkStatus();
  if (!operand.spec.has_value()) {
    return InvalidArgumentError(
        StrCat(operand.field, " is ", operand.stride, ", and ", operand.operand, " is missing"));
  }
  if (operand.spec->source == Source::kResident) {
    return absl::UnimplementedError(StrCat(operand.field, " is ", operand.stride, ", and ",
                                           operand.operand,
                                           " is a resident operand: there it must be 0"));
  }
  const auto step = static_cast<std::uint64_t>(8 / std::gcd(8, SizeBits(operand.one.type)));
  if (operand.stride % step != 0) {
    return InvalidArgumentError(StrCat(operand.field, " is ", operand.stride, "; of ",
                                       Name(operand.one.type), " it must be a multiple of ", step,
                                       ", so that each matrix begins a byte"));
  }
  return absl::OkStatus();
}

// Returns the stride of the results.
absl::StatusOr<std::uint64_t> CheckOutputStride(const MatmulCall& call, const MatrixLayout& d) {
  const std::uint64_t tight =
      static_cast<std::uint64_t>(d.outer()) * static_cast<std::uint64_t>(d.leading_dimension);
  const std::uint64_t stride = call.batch->output_stride;
  if (stride == 0 || stride == tight) return tight;
  if (!call.output.has_value()) {
    return InvalidArgumentError(StrCat("batch.output_stride is ", stride,
                                       "; of a result that is sent back it must be 0 or ", tight,
                                       ", which is all lines of one product"));
  }
  const auto inner = static_cast<std::uint64_t>(d.inner());
  const auto elements = static_cast<std::uint64_t>(Elements(d));
  const bool is_behind = stride >= elements;
  const bool is_beside =
      stride >= inner && static_cast<Wide>(call.batch->count - 1) * stride + inner <=
                             static_cast<std::uint64_t>(d.leading_dimension);
  if (is_behind || is_beside) return stride;
  return InvalidArgumentError(StrCat(
      "batch.output_stride is ", stride, ", with which results overlap: they have ", d.outer(),
      " lines of ", inner, ", ", d.leading_dimension, " apart; it must be at least ", elements,
      ", or at least ", inner, " where the results lie side by side in ", d.leading_dimension));
}

}  // namespace

absl::StatusOr<Stack> ValidateBatch(const MatmulCall& call, const Problem& problem,
                                    const RequestLimits& limits) {
  Stack stack;
  if (!call.batch.has_value()) return stack;
  const BatchSpec& batch = *call.batch;
  if (batch.count < 1 || batch.count > kMostProducts) {
    return InvalidArgumentError(
        StrCat("batch.count is ", batch.count, "; it must be 1 to ", kMostProducts));
  }
  const MatrixLayout bias = {problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
  const StridedOperand operands[] = {
      {"batch.a_stride", "a", call.a, problem.a, batch.a_stride, &stack.a_stride},
      {"batch.b_stride", "b", call.b, problem.b, batch.b_stride, &stack.b_stride},
      {"batch.c_stride", "c", call.c, problem.c, batch.c_stride, &stack.c_stride},
      {"batch.bias_stride", "bias", call.bias, bias, batch.bias_stride, &stack.bias_stride},
  };
  for (const StridedOperand& operand : operands) {
    if (absl::Status s = CheckStride(operand); !s.ok()) return s;
  }
  const absl::StatusOr<std::uint64_t> output_stride = CheckOutputStride(call, problem.d);
  if (!output_stride.ok()) return output_stride.status();
  if (batch.count == 1) return stack;
  if (call.keep_result.has_value()) {
    return absl::UnimplementedError(
        StrCat("keep_result is set, and batch.count is ", batch.count, ": it must be 1"));
  }
  for (const StridedOperand& operand : operands) {
    if (operand.spec.has_value() && operand.spec->k_order != nullptr) {
      return absl::UnimplementedError(StrCat(operand.operand, " has a k_order, and batch.count is ",
                                             batch.count, ": it must be 1"));
    }
  }
  const Wide d = BytesOf(problem.d, batch.count, *output_stride);
  if (d > limits.result_bytes && !call.output.has_value()) {
    return InvalidArgumentError(
        StrCat("d is ", batch.count, " x ", problem.m, " x ", problem.n, " ", Name(problem.d.type),
               "; a unary response carries at most ", limits.result_bytes, " bytes"));
  }
  Wide total = d;
  for (const StridedOperand& operand : operands) {
    if (operand.spec.has_value()) total += BytesOf(operand.one, batch.count, operand.stride);
  }
  total += BytesWithData(problem, kPlanesOfA) * (batch.a_stride == 0 ? 1 : batch.count);
  total += BytesWithData(problem, kPlanesOfB) * (batch.b_stride == 0 ? 1 : batch.count);
  if (total > limits.request_bytes) {
    return InvalidArgumentError(StrCat("the operands and the results of batch.count ", batch.count,
                                       " products take more than ", limits.request_bytes,
                                       " bytes, which one request may take"));
  }
  stack.count = static_cast<std::int64_t>(batch.count);
  stack.d_stride = static_cast<std::int64_t>(*output_stride);
  const bool has_no_sum = problem.k == 1 && (call.a->data.rows == 0 || call.a->data.columns == 0);
  for (const StridedOperand& operand : operands) {
    *operand.checked = static_cast<std::int64_t>(operand.stride);
  }
  // Where K is 0 nothing comes, and the zeros of one product do for all.
  if (has_no_sum) stack.a_stride = stack.b_stride = 0;
  return stack;
}

}  // namespace gemmd
