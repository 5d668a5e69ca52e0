// Host code of ladder C, compiled for the device and for the emulator.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/workshop/blackwell_bf16/ladder_c.h"

namespace gemmd::blackwell_bf16 {
inline namespace GEMMD_BACKEND {

// Maps a matrix of lines that lie `leading_dimension` apart, in boxes of `lines` lines of `box`
// elements.
inline absl::StatusOr<ptx::TensorMap> MakeLineMap(const void* data, const MatrixLayout& matrix,
                                                  int box, int lines, ptx::Swizzle swizzle) {
  ptx::TensorMapSpec spec;
  spec.base = data;
  spec.element =
      matrix.type == DataType::kBf16 ? ptx::TensorElement::kBf16 : ptx::TensorElement::kF16;
  spec.size[0] = static_cast<std::uint64_t>(matrix.inner());
  spec.size[1] = static_cast<std::uint64_t>(matrix.outer());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension) * 2;
  spec.box[0] = static_cast<std::uint32_t>(box);
  spec.box[1] = static_cast<std::uint32_t>(lines);
  spec.swizzle = swizzle;
  return ptx::MakeTensorMap(spec);
}

template <class Step, ptx::Major kBMajor>
absl::StatusOr<LadderCParams> MakeLadderCParams(const Problem& problem,
                                                const Arguments& arguments) {
  LadderCParams params = {};
  params.gemm = mma::MakeHalfGemmParams(problem, arguments, Step::kTileM, Step::kTileN);
  if constexpr (Step::kTensorCore) {
    using A = typename LadderCLayout<Step>::A;
    using B = OperandTile<Step, kBMajor, Step::kTileN>;
    constexpr ptx::Swizzle kSwizzle = Step::kSwizzle ? ptx::Swizzle::k128B : ptx::Swizzle::kNone;
    auto a = MakeLineMap(arguments.a, problem.a, A::kBoxElements, A::kLines, kSwizzle);
    if (!a.ok()) return a.status();
    auto b = MakeLineMap(arguments.b, problem.b, B::kBoxElements, B::kLines, kSwizzle);
    if (!b.ok()) return b.status();
    params.a = *a;
    params.b = *b;
  }
  if constexpr (Step::kTensorStores) {
    using D = typename LadderCLayout<Step>::D;
    auto d = MakeLineMap(arguments.d, problem.d, D::Panel::kColumns, D::kRows, ptx::Swizzle::k128B);
    if (!d.ok()) return d.status();
    params.d = *d;
  }
  return params;
}

// REQUIRES: the registry entry of the step takes the problem (ladder_c_registry.h).
template <class Step, class Types, ptx::Major kBMajor>
absl::Status LaunchLadderC(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  const absl::StatusOr<LadderCParams> params = MakeLadderCParams<Step, kBMajor>(problem, arguments);
  if (!params.ok()) return params.status();
  ptx::LaunchShape shape;
  shape.kernel = Step::kName;
  shape.blocks_x = params->gemm.tiles_m * params->gemm.tiles_n;
  shape.threads = kThreads;
  if constexpr (Step::kTensorCore) shape.shared_bytes = LadderCLayout<Step>::kSharedBytes;
  return ptx::Launch(LadderC<Step, Types, kBMajor>, shape, *params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.b, problem.b.size_bytes(), "B"},
                      {arguments.d, problem.d.size_bytes(), "D", false}},
                     target);
}

template <class Step, class Types>
absl::Status LaunchLadderC(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  if (problem.b_is_k_major()) {
    return LaunchLadderC<Step, Types, ptx::Major::kK>(problem, arguments, target);
  }
  return LaunchLadderC<Step, Types, ptx::Major::kMn>(problem, arguments, target);
}

// Launches the step with the types that the problem asks for.
template <class Step>
absl::Status LaunchLadderC(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16)
    return LaunchLadderC<Step, Bf16>(problem, arguments, target);
  return LaunchLadderC<Step, F16>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_bf16
