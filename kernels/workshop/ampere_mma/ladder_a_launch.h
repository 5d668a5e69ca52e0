// Host code of ladder A, compiled for the device and for the emulator.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/ptx/launch.h"
#include "kernels/workshop/ampere_mma/ladder_a.h"
#include "kernels/workshop/ampere_mma/ladder_a_params.h"

namespace gemmd::ampere_mma {
inline namespace GEMMD_BACKEND {

// REQUIRES: the registry entry of the step takes the problem (ladder_a_registry.h).
template <class Step, class Types>
absl::Status LaunchLadderA(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  using Shape = LadderAShape<Step>;
  const mma::HalfGemmParams params =
      mma::MakeHalfGemmParams(problem, arguments, Step::kTileM, Step::kTileN);
  ptx::LaunchShape shape;
  shape.kernel = Step::kName;
  shape.blocks_x = params.tiles_m * params.tiles_n;
  shape.threads = Shape::kThreads;
  shape.shared_bytes = Shape::kSharedBytes;
  return ptx::Launch(LadderA<Step, Types>, shape, params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.b, problem.b.size_bytes(), "B"},
                      {arguments.d, problem.d.size_bytes(), "D", false}},
                     target);
}

// The same with the types that the problem asks for.
template <class Step>
absl::Status LaunchLadderA(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16) {
    return LaunchLadderA<Step, mma::Bf16AccumulateF32>(problem, arguments, target);
  }
  if (problem.accumulate == DataType::kF16) {
    return LaunchLadderA<Step, mma::F16AccumulateF16>(problem, arguments, target);
  }
  return LaunchLadderA<Step, mma::F16AccumulateF32>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ampere_mma
