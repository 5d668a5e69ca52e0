// The rules of all kernels of this folder for devices and operands, in the words of Kernel's
// methods.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"

namespace gemmd::sm90 {

inline std::string UnavailableReason(const DeviceTraits& device) {
  if (device.kind == DeviceKind::kEmulated) return "";
  if (device.kind != DeviceKind::kCuda) return "runs on a CUDA or an emulated device";
  if (device.compute_capability == 90) return "";
  return absl::StrCat("needs sm_90a, this is sm_", device.compute_capability);
}

// Says why the operands' types and the accumulator's are not taken; empty if they are.
inline std::string TypeRejection(const Problem& problem) {
  const DataType type = problem.a.type;
  if ((type != DataType::kF16 && type != DataType::kBf16) || problem.b.type != type) {
    return "takes f16 or bf16 operands";
  }
  if (problem.accumulate != DataType::kF32) {
    return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
  }
  return "";
}

}  // namespace gemmd::sm90
