#include "server/admission/matmul_call.h"

#include "absl/strings/str_cat.h"

namespace gemmd {

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

std::string Name(OperandName operand, PlaneName plane) {
  if (plane == PlaneName::kData) return std::string(Name(operand));
  return absl::StrCat(Name(operand), ".", Name(plane));
}

std::optional<WorkPlane> WorkPlaneOf(OperandName operand, PlaneName plane) {
  for (const OperandPlane& each : kOperandPlanes) {
    if (each.operand == operand && each.name == plane) return each.plane;
  }
  return std::nullopt;
}

const std::optional<OperandSpec>& MatmulCall::operand(OperandName name) const {
  switch (name) {
    case OperandName::kA:
      return a;
    case OperandName::kB:
      return b;
    case OperandName::kC:
      return c;
    case OperandName::kBias:
      break;
  }
  return bias;
}

}  // namespace gemmd
