// Host code, compiled for the device and for the emulator.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/mma/tensor_copy/gemm.h"
#include "kernels/mma/tensor_copy/maps.h"
#include "kernels/ptx/launch.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

// REQUIRES: the registry entry of the step takes the problem (entry.h).
template <class Step, class Types>
absl::Status Launch(const Problem& problem, const Arguments& arguments,
                    const LaunchTarget& target) {
  const absl::StatusOr<Params> params = MakeParams<Step>(problem, arguments);
  if (!params.ok()) return params.status();
  ptx::LaunchShape shape;
  shape.kernel = Step::kName;
  shape.blocks_x = params->gemm.tiles_m * params->gemm.tiles_n;
  shape.threads = BlockLayout<Step>::kThreads;
  shape.shared_bytes = BlockLayout<Step>::kSharedBytes;
  return ptx::Launch(TensorCopyGemm<Step, Types>, shape, *params,
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
  return Launch<Step, mma::F16AccumulateF32>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
