// Host code, compiled for the device and for the emulator.
#pragma once

#include "absl/status/status.h"
#include "kernels/kernel.h"
#include "kernels/mma/copy_async/gemm.h"
#include "kernels/mma/copy_async/shape.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/ptx/launch.h"

namespace gemmd::copy_async {
inline namespace GEMMD_BACKEND {

// REQUIRES: the registry entry of the step takes the problem (entry.h).
template <class Step, class Types>
absl::Status Launch(const Problem& problem, const Arguments& arguments,
                    const LaunchTarget& target) {
  using Shape = BlockShape<Step>;
  const mma::HalfGemmParams params =
      mma::MakeHalfGemmParams(problem, arguments, Step::kTileM, Step::kTileN);
  ptx::LaunchShape shape;
  shape.kernel = Step::kName;
  shape.blocks_x = params.tiles_m * params.tiles_n;
  shape.threads = Shape::kThreads;
  shape.shared_bytes = Shape::kSharedBytes;
  return ptx::Launch(CopyAsyncGemm<Step, Types>, shape, params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.b, problem.b.size_bytes(), "B"},
                      {arguments.d, problem.d.size_bytes(), "D", false}},
                     target);
}

// Launches the step with the types that the problem asks for.
template <class Step>
absl::Status Launch(const Problem& problem, const Arguments& arguments,
                    const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16) {
    return Launch<Step, mma::Bf16AccumulateF32>(problem, arguments, target);
  }
  if (problem.accumulate == DataType::kF16) {
    return Launch<Step, mma::F16AccumulateF16>(problem, arguments, target);
  }
  return Launch<Step, mma::F16AccumulateF32>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::copy_async
