#include "server/admission/ordering.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

using absl::StrCat;

absl::Status CheckOther(absl::string_view ordered, absl::string_view other,
                        const OperandSpec& operand, const Scaling& scaling) {
  if (operand.source == Source::kResident) {
    return absl::UnimplementedError(StrCat(ordered, " has a k_order, and ", other,
                                           " is a resident operand: send ", other,
                                           " with the request, which puts it in that order"));
  }
  if (scaling.has_scales && scaling.block_k != kWhole) {
    return absl::InvalidArgumentError(StrCat(other, ".quantization is set, and ", ordered,
                                             " has a k_order, which would part the blocks of ",
                                             other));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ordering> OrderingOf(const MatmulCall& call, const Problem& problem) {
  const OperandSpec& a = *call.a;
  const OperandSpec& b = *call.b;
  if (a.k_order == nullptr && b.k_order == nullptr) return Ordering();
  if (a.k_order != nullptr && b.k_order != nullptr) {
    return absl::UnimplementedError("a and b have a k_order each; one operand of a product may");
  }
  const bool is_of_a = a.k_order != nullptr;
  const OperandSpec& ordered = is_of_a ? a : b;
  const absl::string_view field = is_of_a ? "a" : "b";
  if (ordered.source != Source::kResident) {
    return absl::InvalidArgumentError(
        StrCat(field, ".k_order is set, and ", field,
               " is no resident operand: upload it, or put the other operand in that order"));
  }
  absl::Status status = CheckKOrder(StrCat(field, ".k_order"), *ordered.k_order,
                                    static_cast<std::uint64_t>(problem.k));
  if (!status.ok()) return status;
  status = is_of_a ? CheckOther("a", "b", b, problem.b_scaling)
                   : CheckOther("b", "a", a, problem.a_scaling);
  if (!status.ok()) return status;
  return Ordering{ordered.k_order, is_of_a ? OperandName::kB : OperandName::kA};
}

void PutInOrder(const Ordering& ordering, const Problem& problem, char* data) {
  const bool is_a = ordering.operand == OperandName::kA;
  const MatrixLayout& layout = is_a ? problem.a : problem.b;
  const auto bytes = static_cast<std::size_t>(SizeBits(layout.type) / 8);
  const auto step = static_cast<std::size_t>(layout.leading_dimension) * bytes;
  const bool k_is_inner = is_a ? problem.a_is_k_major() : problem.b_is_k_major();
  KLines lines;
  lines.data = data;
  lines.element_bytes = bytes;
  lines.lines = static_cast<std::size_t>(is_a ? problem.m : problem.n);
  lines.line_step = k_is_inner ? step : bytes;
  lines.k_step = k_is_inner ? bytes : step;
  gemmd::PutInOrder(*ordering.order, lines);
}

}  // namespace gemmd
