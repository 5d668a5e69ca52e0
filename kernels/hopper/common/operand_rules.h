// The rules of all kernels of this folder for devices and operands, in the words of Kernel's
// methods.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"

namespace gemmd::hopper {

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

// Says why TMA does not take the layout's lines; empty if it does. They begin at multiples of 16
// bytes.
inline std::string StrideRejection(const char* name, const MatrixLayout& layout) {
  const std::int64_t unit = 128 / SizeBits(layout.type);  // elements of 16 bytes
  if (layout.leading_dimension % unit == 0) return "";
  return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ", unit,
                      ", not ", layout.leading_dimension);
}

}  // namespace gemmd::hopper
