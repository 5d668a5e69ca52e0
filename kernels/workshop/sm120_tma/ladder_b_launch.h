// Host code of ladder B, compiled for the device and for the emulator.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/ptx/launch.h"
#include "kernels/workshop/sm120_tma/ladder_b.h"
#include "kernels/workshop/sm120_tma/ladder_b_maps.h"

namespace gemmd::sm120_tma {
inline namespace GEMMD_BACKEND {

// REQUIRES: the registry entry of the step takes the problem (ladder_b_registry.h).
template <class Step, class Types>
absl::Status LaunchLadderB(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  const absl::StatusOr<LadderBParams> params = MakeLadderBParams<Step>(problem, arguments);
  if (!params.ok()) return params.status();
  ptx::LaunchShape shape;
  shape.kernel = Step::kName;
  shape.blocks_x = params->gemm.tiles_m * params->gemm.tiles_n;
  shape.threads = LadderBLayout<Step>::kThreads;
  shape.shared_bytes = LadderBLayout<Step>::kSharedBytes;
  return ptx::Launch(LadderB<Step, Types>, shape, *params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.b, problem.b.size_bytes(), "B"},
                      {arguments.d, problem.d.size_bytes(), "D", false}},
                     target);
}

// The same with the types that the problem asks for.
template <class Step>
absl::Status LaunchLadderB(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16) {
    return LaunchLadderB<Step, mma::Bf16AccumulateF32>(problem, arguments, target);
  }
  return LaunchLadderB<Step, mma::F16AccumulateF32>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120_tma
