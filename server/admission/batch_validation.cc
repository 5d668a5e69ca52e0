#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/admission/validation.h"
#include "server/device/panel.h"

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
  WorkPlane data = WorkPlane::kA;
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
  const auto step = static_cast<std::uint64_t>(8 / std::gcd(8, SizeBits(operand.one.type)));
  if (operand.stride % step != 0) {
    return InvalidArgumentError(StrCat(operand.field, " is ", operand.stride, "; of ",
                                       Name(operand.one.type), " it must be a multiple of ", step,
                                       ", so that each matrix begins a byte"));
  }
  return absl::OkStatus();
}

// Products may take every second matrix of a resident stack, say, and share planes that all of its
// matrices have.
void SetStridesOfStacks(const MatmulCall& call, Stack* stack) {
  for (const OperandPlane& each : kOperandPlanes) {
    const std::optional<OperandSpec>& spec = call.operand(each.operand);
    if (!spec.has_value() || !spec->stack.has_value() || each.name == PlaneName::kData) continue;
    const StackSpec& of = *spec->stack;
    stack->strides[each.plane] = of.shares[each.name] ? 0 : of.each * stack->strides[each.plane];
  }
}

// Groups have rows of A, C and D of their own, one behind the other.
absl::Status CheckRowEnds(const BatchSpec& batch, std::int64_t m) {
  const std::vector<std::uint64_t>& ends = batch.row_ends;
  if (ends.size() != batch.count || batch.count > kMostGroups) {
    return InvalidArgumentError(StrCat("batch.row_ends has ", ends.size(), " and batch.count is ",
                                       batch.count, "; they must be equal, and 1 to ",
                                       kMostGroups));
  }
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] < last) {
      return InvalidArgumentError(StrCat("batch.row_ends[", i, "] is ", ends[i], ", behind one of ",
                                         last,
                                         "; none may be less than the one "
                                         "before"));
    }
    last = ends[i];
  }
  if (last == static_cast<std::uint64_t>(m)) return absl::OkStatus();
  return InvalidArgumentError(
      StrCat("the last of batch.row_ends is ", last, "; it must be ", m, ", the rows of op(a)"));
}

absl::Status CheckGroups(const MatmulCall& call, const Problem& problem) {
  const BatchSpec& batch = *call.batch;
  const std::pair<absl::string_view, std::uint64_t> strides[] = {
      {"a_stride", batch.a_stride},
      {"c_stride", batch.c_stride},
      {"output_stride", batch.output_stride}};
  for (const auto& [field, stride] : strides) {
    if (stride == 0) continue;
    return InvalidArgumentError(
        StrCat("batch.", field, " is ", stride, ", and batch.row_ends is set: it must be 0"));
  }
  if (absl::Status s = CheckRowEnds(batch, problem.m); !s.ok()) return s;
  if (problem.d.order != Order::kRowMajor) {
    return InvalidArgumentError(
        "output_order is column_major, and batch.row_ends is set: it must be row_major");
  }
  const bool lies_apart = problem.a_scaling.has_scales && problem.a_scaling.block_k != kWhole &&
                          problem.a_scaling.order != ScaleOrder::kAlongK;
  if (PanelRowStep(problem) == 1 && !lies_apart) return absl::OkStatus();
  return absl::UnimplementedError(
      StrCat("a is ", Name(problem.a.type),
             ", and batch.row_ends is set: there a must have elements "
             "of at least 8 bits, and each row's scales one after another"));
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
      {"batch.a_stride", "a", call.a, problem.a, batch.a_stride, WorkPlane::kA},
      {"batch.b_stride", "b", call.b, problem.b, batch.b_stride, WorkPlane::kB},
      {"batch.c_stride", "c", call.c, problem.c, batch.c_stride, WorkPlane::kC},
      {"batch.bias_stride", "bias", call.bias, bias, batch.bias_stride, WorkPlane::kBias},
  };
  for (const StridedOperand& operand : operands) {
    if (absl::Status s = CheckStride(operand); !s.ok()) return s;
  }
  const bool has_groups = !batch.row_ends.empty();
  if (has_groups) {
    if (absl::Status s = CheckGroups(call, problem); !s.ok()) return s;
  }
  const absl::StatusOr<std::uint64_t> output_stride = CheckOutputStride(call, problem.d);
  if (!output_stride.ok()) return output_stride.status();
  if (batch.count == 1) return stack;
  if (call.keep_result.has_value() && !has_groups) {
    return absl::UnimplementedError(StrCat("keep_result is set, and batch.count is ", batch.count,
                                           ": it must be 1, or "
                                           "batch.row_ends set"));
  }
  for (const StridedOperand& operand : operands) {
    if (operand.spec.has_value() && operand.spec->k_order != nullptr) {
      return absl::UnimplementedError(StrCat(operand.operand, " has a k_order, and batch.count is ",
                                             batch.count, ": it must be 1"));
    }
  }
  const Wide d = BytesOf(problem.d, has_groups ? 1 : batch.count, *output_stride);
  const bool is_sent_back = !call.output.has_value() && !call.keep_result.has_value();
  if (d > limits.result_bytes && is_sent_back) {
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
  if (has_groups) {
    stack.row_ends = std::make_shared<const std::vector<std::int64_t>>(batch.row_ends.begin(),
                                                                       batch.row_ends.end());
  } else {
    stack.d_stride = static_cast<std::int64_t>(*output_stride);
  }
  const bool has_no_sum = problem.k == 1 && (call.a->data.rows == 0 || call.a->data.columns == 0);
  for (const StridedOperand& operand : operands) {
    // Where K is 0 nothing comes, and the zeros of one product do for all.
    const bool is_factor = operand.data == WorkPlane::kA || operand.data == WorkPlane::kB;
    if (has_no_sum && is_factor) continue;
    SetStrides(problem, operand.data, static_cast<std::int64_t>(operand.stride), &stack);
  }
  SetStridesOfStacks(call, &stack);
  return stack;
}

}  // namespace gemmd
