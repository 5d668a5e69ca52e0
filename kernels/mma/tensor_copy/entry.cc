#include "kernels/mma/tensor_copy/entry.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace gemmd::tensor_copy {

Entry::Entry(const StepTraits& step, mma::HalfGemmLaunch cuda, mma::HalfGemmLaunch emulated)
    : HalfGemmEntry(step.half_gemm, "sm_120a", /*accumulates_f16=*/false, cuda, emulated),
      loads_by_tma_(step.loads_by_tma) {}

std::string Entry::CapabilityRejection(int compute_capability) const {
  if (compute_capability == 90 || compute_capability == 120) return "";
  return absl::StrCat("needs sm_90 or sm_120, this is sm_", compute_capability);
}

std::string Entry::Rejection(const Problem& problem) const {
  std::string rejection = HalfGemmEntry::Rejection(problem);
  if (!rejection.empty() || !loads_by_tma_) return rejection;
  // Strides of a tensor map have 40 bits.
  constexpr std::int64_t kLimit = (std::int64_t{1} << 40) / 2 - 8;
  const std::int64_t longest = std::max(
      {problem.a.leading_dimension, problem.b.leading_dimension, problem.d.leading_dimension});
  if (longest <= kLimit) return "";
  return absl::StrCat("takes leading dimensions up to ", kLimit, ", not ", longest);
}

}  // namespace gemmd::tensor_copy
