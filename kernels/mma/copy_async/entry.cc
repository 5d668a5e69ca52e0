#include "kernels/mma/copy_async/entry.h"

#include "absl/strings/str_cat.h"

namespace gemmd::copy_async {
namespace {

// Shared memory that a block may have, in KB, from a compute capability on: CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability".
struct SharedLimit {
  int compute_capability;
  std::uint32_t kilobytes;
};
constexpr SharedLimit kSharedLimits[] = {{80, 163}, {86, 99},  {87, 163},
                                         {89, 99},  {90, 227}, {120, 99}};

std::uint32_t SharedKilobytes(int compute_capability) {
  std::uint32_t kilobytes = 0;
  for (const SharedLimit& limit : kSharedLimits) {
    if (limit.compute_capability <= compute_capability) kilobytes = limit.kilobytes;
  }
  return kilobytes;
}

}  // namespace

Entry::Entry(const StepTraits& step, mma::HalfGemmLaunch cuda, mma::HalfGemmLaunch emulated)
    : HalfGemmEntry(step.half_gemm, "sm_80", /*accumulates_f16=*/true, cuda, emulated),
      shared_kilobytes_(step.shared_kilobytes) {}

std::string Entry::CapabilityRejection(int compute_capability) const {
  if (compute_capability < 80) {
    return absl::StrCat("needs sm_80, this is sm_", compute_capability);
  }
  const std::uint32_t limit = SharedKilobytes(compute_capability);
  if (shared_kilobytes_ <= limit) return "";
  return absl::StrCat("needs ", shared_kilobytes_, " KB of shared memory for a block, sm_",
                      compute_capability, " has ", limit);
}

}  // namespace gemmd::copy_async
