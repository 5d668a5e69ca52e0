// Host code of ladder D, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "kernels/mma/scaled_maps.h"
#include "kernels/ptx/launch.h"
#include "kernels/ptx/tcgen05_descriptor.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

template <class Layout>
absl::StatusOr<ptx::TensorMap> MakeStoredMap(const Problem& problem, void* d) {
  ptx::TensorMapSpec spec;
  spec.base = d;
  spec.element = ptx::TensorElement::kF32;
  spec.size[0] = static_cast<std::uint64_t>(problem.n);
  spec.size[1] = static_cast<std::uint64_t>(problem.m);
  spec.stride_bytes[1] = static_cast<std::uint64_t>(problem.d.leading_dimension) * sizeof(float);
  spec.box[0] = Layout::kBoxColumns;
  spec.box[1] = Layout::kALines;
  spec.swizzle = Layout::kBoxSwizzle;
  return ptx::MakeTensorMap(spec);
}

// Products of `columns` of B.
template <class Step>
std::uint32_t MakeLadderDInstruction(const Problem& problem, int columns) {
  if constexpr (Step::kFormat == ScaledFormat::kMxfp8) {
    const auto type = [](DataType type) {
      return type == DataType::kFp8E4M3 ? ptx::Tcgen05MxType::kE4m3 : ptx::Tcgen05MxType::kE5m2;
    };
    ptx::Tcgen05MxForm form;
    form.a_type = type(problem.a.type);
    form.b_type = type(problem.b.type);
    form.rows = Step::kTileM;
    form.columns = columns;
    return ptx::MakeTcgen05MxInstruction(form);
  } else {
    ptx::Tcgen05Fp4Form form;
    form.has_e4m3_scales = Step::kFormat == ScaledFormat::kNvfp4;
    form.rows = Step::kTileM;
    form.columns = columns;
    return ptx::MakeTcgen05Fp4Instruction(form);
  }
}

template <class Step>
bool IsLarge(const Problem& problem) {
  return std::min({problem.m, problem.n, problem.k}) >= Step::kLargeFrom;
}

// Says whether tiles go along a Hilbert curve: published steps have it where the grid is a square
// whose side is a power of two. mma::GeneralHilbertTile() takes any grid of sides up to 2^15.
template <class Step>
bool IsHilbert(const Problem& problem, std::uint32_t tiles_m, std::uint32_t tiles_n) {
  constexpr std::uint32_t kLongest = 1u << 15;
  if (Step::kOrder == TileOrder::kRows || std::max(tiles_m, tiles_n) > kLongest) return false;
  if (Step::kOrder == TileOrder::kAnyHilbert) return true;
  if (tiles_m != tiles_n) return false;
  if (Step::kOrder == TileOrder::kLargeHilbert && !IsLarge<Step>(problem)) return false;
  return (tiles_m & (tiles_m - 1)) == 0;
}

// TMA stores rows in units of 16 bytes: where N ends inside one, what follows is not ours.
inline bool AreRowsWhole(const Problem& problem, const void* d) {
  return problem.n % 4 == 0 && problem.d.leading_dimension % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(d) % 16 == 0;
}

template <class Step, bool kTensorStores>
absl::StatusOr<LadderDParams> MakeLadderDParams(const Problem& problem, const Arguments& arguments,
                                                std::uint32_t pairs) {
  using Layout = LadderDLayout<Step, kTensorStores>;
  LadderDParams params = {};
  const auto a = mma::MakeOperandMap(arguments.a, problem.a, Layout::kALines);
  if (!a.ok()) return a.status();
  const auto b = mma::MakeOperandMap(arguments.b, problem.b, Layout::kBLines);
  if (!b.ok()) return b.status();
  const auto a_scales = mma::MakeScaleMap(arguments.a_scales, problem.a_scaling, problem.m,
                                          problem.k, Layout::kATiles, 1, Step::kScaleLine);
  if (!a_scales.ok()) return a_scales.status();
  const auto b_scales =
      mma::MakeScaleMap(arguments.b_scales, problem.b_scaling, problem.n, problem.k,
                        Layout::kATiles, Layout::kBTiles, Step::kScaleLine);
  if (!b_scales.ok()) return b_scales.status();
  params.a = *a;
  params.b = *b;
  params.a_scales = *a_scales;
  params.b_scales = *b_scales;
  if constexpr (kTensorStores) {
    const auto stored = MakeStoredMap<Layout>(problem, arguments.d);
    if (!stored.ok()) return stored.status();
    params.stored = *stored;
  }
  params.d = static_cast<float*>(arguments.d);
  params.a_tensor_scale = arguments.a_tensor_scale;
  params.b_tensor_scale = arguments.b_tensor_scale;
  params.ldd = problem.d.leading_dimension;
  params.m = static_cast<std::int32_t>(problem.m);
  params.n = static_cast<std::int32_t>(problem.n);
  params.k = static_cast<std::int32_t>(problem.k);
  params.tiles_m = static_cast<std::uint32_t>((problem.m + Step::kTileM - 1) / Step::kTileM);
  params.tiles_n = static_cast<std::uint32_t>((problem.n + Step::kTileN - 1) / Step::kTileN);
  params.whole_tiles = params.tiles_m * params.tiles_n;
  if constexpr (Step::kHalvesTail) {
    const auto half_b = mma::MakeOperandMap(arguments.b, problem.b, Layout::kBLines / 2);
    if (!half_b.ok()) return half_b.status();
    params.half_b = *half_b;
    params.half_instruction = MakeLadderDInstruction<Step>(problem, Step::kTileN / 2);
    params.whole_tiles = static_cast<std::uint32_t>(WholeTiles(params.whole_tiles, pairs));
  }
  params.is_hilbert = IsHilbert<Step>(problem, params.tiles_m, params.tiles_n);
  params.instruction = MakeLadderDInstruction<Step>(problem, Step::kTileN);
  params.is_aligned = params.ldd % Step::kStoreFloats == 0 &&
                      reinterpret_cast<std::uintptr_t>(arguments.d) % (4 * Step::kStoreFloats) == 0;
  return params;
}

template <class Step, bool kTensorStores>
absl::Status LaunchLadderDForm(const Problem& problem, const Arguments& arguments,
                               const LaunchTarget& target) {
  using Layout = LadderDLayout<Step, kTensorStores>;
  if constexpr (!Layout::kFits) {
    return absl::InvalidArgumentError(absl::StrCat(Step::kName, ": its layout takes ",
                                                   Layout::kColumns, " columns of tensor memory, ",
                                                   kMaxColumns, " are there"));
  } else {
    const std::uint32_t pairs = std::max(ptx::Multiprocessors() / 2, 1u);
    const auto params = MakeLadderDParams<Step, kTensorStores>(problem, arguments, pairs);
    if (!params.ok()) return params.status();
    const std::uint32_t tiles = 2 * params->tiles_m * params->tiles_n - params->whole_tiles;
    ptx::LaunchShape shape;
    shape.kernel = Step::kName;
    shape.blocks_x = 2 * std::min(pairs, tiles);
    shape.threads = kLadderDThreads;
    shape.cluster_size = 2;
    shape.shared_bytes = Layout::kSharedBytes;
    std::vector<ptx::DeviceBuffer> buffers = {
        {arguments.a, problem.a.size_bytes(), "A"},
        {arguments.b, problem.b.size_bytes(), "B"},
        {arguments.a_scales, mma::ScaleBytes(problem.a_scaling, problem.m, problem.k),
         "A's scales"},
        {arguments.b_scales, mma::ScaleBytes(problem.b_scaling, problem.n, problem.k),
         "B's scales"},
        {arguments.d, problem.d.size_bytes(), "D", false}};
    if (Step::kFormat == ScaledFormat::kNvfp4) {
      buffers.push_back({arguments.a_tensor_scale, sizeof(float), "A's tensor scale"});
      buffers.push_back({arguments.b_tensor_scale, sizeof(float), "B's tensor scale"});
    }
    return ptx::Launch(LadderD<Step, kTensorStores>, shape, *params, buffers, target);
  }
}

// REQUIRES: the registry entry of the step takes the problem (ladder_d_registry.h).
template <class Step>
absl::Status LaunchLadderD(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  if constexpr (Step::kStores != StoreWay::kThreads) {
    const bool is_wanted = Step::kStores == StoreWay::kTensor || IsLarge<Step>(problem);
    if (is_wanted && AreRowsWhole(problem, arguments.d)) {
      return LaunchLadderDForm<Step, true>(problem, arguments, target);
    }
  }
  return LaunchLadderDForm<Step, false>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
