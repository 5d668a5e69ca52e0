#include "kernels/hopper/quant/landing.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/landing_entries.h"

namespace gemmd::hopper::quant {

std::string WeightRejection(const Problem& problem) {
  const Scaling& scaling = problem.b_scaling;
  if (problem.b.type != DataType::kInt4 && problem.b.type != DataType::kUint4) {
    return absl::StrCat("takes B of int4 or uint4, not ", Name(problem.b.type));
  }
  if (!scaling.has_scales || scaling.type != DataType::kF16 || scaling.block_lines != 1 ||
      scaling.block_k != kGroupK || scaling.has_tensor_scale ||
      scaling.order == ScaleOrder::kTiles128x4) {
    return absl::StrCat("takes f16 scales of 1 x 128 for B, not ", Name(scaling));
  }
  return "";
}

absl::Status LandWeights(const Problem& problem, const WeightPlanes& planes,
                         const LaunchTarget& target) {
  if (const std::string rejection = WeightRejection(problem); !rejection.empty()) {
    return absl::InvalidArgumentError(rejection);
  }
  if (reinterpret_cast<std::uintptr_t>(planes.landed) % 128 != 0) {
    return absl::InvalidArgumentError("landed must be aligned to 128 bytes");
  }
  return LandingFor(target)(problem, planes, target);
}

}  // namespace gemmd::hopper::quant
