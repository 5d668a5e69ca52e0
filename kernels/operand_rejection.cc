#include "kernels/operand_rejection.h"

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"

namespace gemmd {
namespace {

bool IsScaleType(DataType type) {
  return IsRealOperand(type) || type == DataType::kE8M0 || type == DataType::kFp8E4M3;
}

}  // namespace

bool IsRealOperand(DataType type) {
  return type == DataType::kF32 || type == DataType::kF16 || type == DataType::kBf16;
}

std::string OperandRejection(const char* name, DataType type, const Scaling& scaling) {
  if (IsRealOperand(type)) {
    return scaling.has_scales ? absl::StrCat("takes no scales of a ", Name(type), " ", name) : "";
  }
  if (!IsQuantizedType(type)) {
    return absl::StrCat("does not take ", Name(type), " as ", name);
  }
  if (scaling.has_scales && !IsScaleType(scaling.type)) {
    return absl::StrCat("does not take ", Name(scaling.type), " scales of ", name);
  }
  if (scaling.has_zero_points && !IsQuantizedInteger(type)) {
    return absl::StrCat("takes no zero points of a ", Name(type), " ", name);
  }
  if (scaling.has_offsets && !IsQuantizedInteger(type)) {
    return absl::StrCat("takes no offsets of a ", Name(type), " ", name);
  }
  return "";
}

}  // namespace gemmd
