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
  switch (plane) {
    case PlaneName::kData:
      break;
    case PlaneName::kScales:
      return absl::StrCat(Name(operand), ".scales");
    case PlaneName::kZeroPoints:
      return absl::StrCat(Name(operand), ".zero_points");
    case PlaneName::kTensorScale:
      return absl::StrCat(Name(operand), ".tensor_scale");
  }
  return std::string(Name(operand));
}

std::optional<WorkPlane> WorkPlaneOf(OperandName operand, PlaneName plane) {
  for (const OperandPlane& each : kOperandPlanes) {
    if (each.operand == operand && each.name == plane) return each.plane;
  }
  return std::nullopt;
}

}  // namespace gemmd
