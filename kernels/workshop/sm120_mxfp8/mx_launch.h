// Host code of the MXFP8 kernel, compiled for the device and for the emulator.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel.h"
#include "kernels/mma/scaled_maps.h"
#include "kernels/ptx/launch.h"
#include "kernels/workshop/sm120_mxfp8/mx_gemm.h"

namespace gemmd::sm120_mxfp8 {
inline namespace GEMMD_BACKEND {

inline absl::StatusOr<MxParams> MakeMxParams(const Problem& problem, const Arguments& arguments) {
  MxParams params = {};
  const auto a = mma::MakeOperandMap(arguments.a, problem.a, kTileM);
  if (!a.ok()) return a.status();
  const auto b = mma::MakeOperandMap(arguments.b, problem.b, kTileN);
  if (!b.ok()) return b.status();
  const auto a_scales =
      mma::MakeScaleMap(arguments.a_scales, problem.a_scaling, problem.m, problem.k, 1, 1);
  if (!a_scales.ok()) return a_scales.status();
  const auto b_scales =
      mma::MakeScaleMap(arguments.b_scales, problem.b_scaling, problem.n, problem.k, 1, 1);
  if (!b_scales.ok()) return b_scales.status();
  params.a = *a;
  params.b = *b;
  params.a_scales = *a_scales;
  params.b_scales = *b_scales;
  params.d = static_cast<float*>(arguments.d);
  params.ldd = problem.d.leading_dimension;
  params.m = static_cast<std::int32_t>(problem.m);
  params.n = static_cast<std::int32_t>(problem.n);
  params.k = static_cast<std::int32_t>(problem.k);
  params.tiles_m = static_cast<std::uint32_t>((problem.m + kTileM - 1) / kTileM);
  params.tiles_n = static_cast<std::uint32_t>((problem.n + kTileN - 1) / kTileN);
  params.is_aligned = params.ldd % 2 == 0 && reinterpret_cast<std::uintptr_t>(arguments.d) % 8 == 0;
  return params;
}

template <ptx::MmaMxType kA, ptx::MmaMxType kB>
absl::Status LaunchMxTypes(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  const absl::StatusOr<MxParams> params = MakeMxParams(problem, arguments);
  if (!params.ok()) return params.status();
  ptx::LaunchShape shape;
  shape.kernel = Mx::kName;
  shape.blocks_x = params->tiles_m * params->tiles_n;
  shape.threads = MxLayout::kThreads;
  shape.shared_bytes = MxLayout::kSharedBytes;
  return ptx::Launch(
      MxGemm<kA, kB>, shape, *params,
      {{arguments.a, problem.a.size_bytes(), "A"},
       {arguments.b, problem.b.size_bytes(), "B"},
       {arguments.a_scales, mma::ScaleBytes(problem.a_scaling, problem.m, problem.k), "A's scales"},
       {arguments.b_scales, mma::ScaleBytes(problem.b_scaling, problem.n, problem.k), "B's scales"},
       {arguments.d, problem.d.size_bytes(), "D", false}},
      target);
}

// REQUIRES: the registry entry takes the problem (mx_registry.h).
inline absl::Status LaunchMx(const Problem& problem, const Arguments& arguments,
                             const LaunchTarget& target) {
  constexpr auto kE4m3 = ptx::MmaMxType::kE4m3;
  constexpr auto kE5m2 = ptx::MmaMxType::kE5m2;
  if (problem.a.type == DataType::kFp8E4M3) {
    return problem.b.type == DataType::kFp8E4M3
               ? LaunchMxTypes<kE4m3, kE4m3>(problem, arguments, target)
               : LaunchMxTypes<kE4m3, kE5m2>(problem, arguments, target);
  }
  return problem.b.type == DataType::kFp8E4M3
             ? LaunchMxTypes<kE5m2, kE4m3>(problem, arguments, target)
             : LaunchMxTypes<kE5m2, kE5m2>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120_mxfp8
