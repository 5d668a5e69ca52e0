// Host code of ladder D, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/ptx/tcgen05_descriptor.h"
#include "kernels/sm100/ladder_d.h"

namespace gemmd::sm100 {
inline namespace GEMMD_BACKEND {

// Lines of K bytes, in boxes of 128 bytes of so many lines.
inline absl::StatusOr<ptx::TensorMap> MakeOperandMap(const void* data, const MatrixLayout& matrix,
                                                     std::uint32_t lines) {
  ptx::TensorMapSpec spec;
  spec.base = data;
  spec.element = ptx::TensorElement::kU8;
  spec.size[0] = static_cast<std::uint64_t>(matrix.inner());
  spec.size[1] = static_cast<std::uint64_t>(matrix.outer());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension);
  spec.box[0] = 128;
  spec.box[1] = lines;
  spec.swizzle = ptx::Swizzle::k128B;
  return ptx::MakeTensorMap(spec);
}

// Tiles of 32 lines of 16 bytes: those along K follow each other, then those along lines. A box has
// `along_k` by `along_lines` of them.
inline absl::StatusOr<ptx::TensorMap> MakeScaleMap(const void* data, std::int64_t lines,
                                                   std::int64_t k, int along_k, int along_lines) {
  constexpr std::uint64_t kTileBytes = 512;
  const auto tiles_k = static_cast<std::uint64_t>((k + 127) / 128);
  const auto tiles = static_cast<std::uint64_t>((lines + 127) / 128);
  ptx::TensorMapSpec spec;
  spec.base = data;
  spec.element = ptx::TensorElement::kU8;
  spec.rank = 4;
  spec.size[0] = 16;
  spec.size[1] = 32;
  spec.size[2] = tiles_k;
  spec.size[3] = tiles;
  spec.stride_bytes[1] = 16;
  spec.stride_bytes[2] = kTileBytes;
  spec.stride_bytes[3] = kTileBytes * tiles_k;
  spec.box[0] = 16;
  spec.box[1] = 32;
  spec.box[2] = static_cast<std::uint32_t>(along_k);
  spec.box[3] = static_cast<std::uint32_t>(along_lines);
  return ptx::MakeTensorMap(spec);
}

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
  spec.swizzle = ptx::Swizzle::k128B;
  return ptx::MakeTensorMap(spec);
}

inline std::uint32_t MakeLadderDInstruction(const Problem& problem, int tile_m, int tile_n) {
  const auto type = [](DataType type) {
    return type == DataType::kFp8E4M3 ? ptx::Tcgen05MxType::kE4m3 : ptx::Tcgen05MxType::kE5m2;
  };
  ptx::Tcgen05MxForm form;
  form.a_type = type(problem.a.type);
  form.b_type = type(problem.b.type);
  form.rows = tile_m;
  form.columns = tile_n;
  return ptx::MakeTcgen05MxInstruction(form);
}

template <class Step>
bool IsLarge(const Problem& problem) {
  return std::min({problem.m, problem.n, problem.k}) >= Step::kLargeFrom;
}

// The side of the square of tiles that a Hilbert curve goes through; 0 where tiles are in rows.
template <class Step>
std::uint32_t HilbertSide(const Problem& problem, std::uint32_t tiles_m, std::uint32_t tiles_n) {
  const bool is_square = tiles_m == tiles_n && (tiles_m & (tiles_m - 1)) == 0;
  if (Step::kOrder == TileOrder::kRows || !is_square) return 0;
  if (Step::kOrder == TileOrder::kLargeHilbert && !IsLarge<Step>(problem)) return 0;
  return tiles_m;
}

// TMA stores rows in units of 16 bytes: where N ends inside one, what follows is not ours.
inline bool AreRowsWhole(const Problem& problem, const void* d) {
  return problem.n % 4 == 0 && problem.d.leading_dimension % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(d) % 16 == 0;
}

template <class Step, bool kTensorStores>
absl::StatusOr<LadderDParams> MakeLadderDParams(const Problem& problem,
                                                const Arguments& arguments) {
  using Layout = LadderDLayout<Step, kTensorStores>;
  LadderDParams params = {};
  const auto a = MakeOperandMap(arguments.a, problem.a, Layout::kALines);
  if (!a.ok()) return a.status();
  const auto b = MakeOperandMap(arguments.b, problem.b, Layout::kBLines);
  if (!b.ok()) return b.status();
  const auto a_scales = MakeScaleMap(arguments.a_scales, problem.m, problem.k, Layout::kSpans, 1);
  if (!a_scales.ok()) return a_scales.status();
  const auto b_scales =
      MakeScaleMap(arguments.b_scales, problem.n, problem.k, Layout::kSpans, Layout::kBTiles);
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
  params.ldd = problem.d.leading_dimension;
  params.m = static_cast<std::int32_t>(problem.m);
  params.n = static_cast<std::int32_t>(problem.n);
  params.k = static_cast<std::int32_t>(problem.k);
  params.tiles_m = static_cast<std::uint32_t>((problem.m + Step::kTileM - 1) / Step::kTileM);
  params.tiles_n = static_cast<std::uint32_t>((problem.n + Step::kTileN - 1) / Step::kTileN);
  params.hilbert_side = HilbertSide<Step>(problem, params.tiles_m, params.tiles_n);
  params.instruction = MakeLadderDInstruction(problem, Step::kTileM, Step::kTileN);
  params.is_aligned = params.ldd % Step::kStoreFloats == 0 &&
                      reinterpret_cast<std::uintptr_t>(arguments.d) % (4 * Step::kStoreFloats) == 0;
  return params;
}

inline std::uint64_t ScaleBytes(const Scaling& scaling, std::int64_t lines, std::int64_t k) {
  return static_cast<std::uint64_t>(scaling.count(lines, k));
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
    const auto params = MakeLadderDParams<Step, kTensorStores>(problem, arguments);
    if (!params.ok()) return params.status();
    const std::uint32_t pairs = std::max(ptx::Multiprocessors() / 2, 1u);
    ptx::LaunchShape shape;
    shape.kernel = Step::kName;
    shape.blocks_x = 2 * std::min(pairs, params->tiles_m * params->tiles_n);
    shape.threads = kLadderDThreads;
    shape.cluster_size = 2;
    shape.shared_bytes = Layout::kSharedBytes;
    return ptx::Launch(
        LadderD<Step, kTensorStores>, shape, *params,
        {{arguments.a, problem.a.size_bytes(), "A"},
         {arguments.b, problem.b.size_bytes(), "B"},
         {arguments.a_scales, ScaleBytes(problem.a_scaling, problem.m, problem.k), "A's scales"},
         {arguments.b_scales, ScaleBytes(problem.b_scaling, problem.n, problem.k), "B's scales"},
         {arguments.d, problem.d.size_bytes(), "D", false}},
        target);
  }
}

template <class Step>
absl::Status LaunchLadderDTile(const Problem& problem, const Arguments& arguments,
                               const LaunchTarget& target) {
  if constexpr (Step::kStores != StoreWay::kThreads) {
    const bool is_wanted = Step::kStores == StoreWay::kTensor || IsLarge<Step>(problem);
    if (is_wanted && AreRowsWhole(problem, arguments.d)) {
      return LaunchLadderDForm<Step, true>(problem, arguments, target);
    }
  }
  return LaunchLadderDForm<Step, false>(problem, arguments, target);
}

// REQUIRES: the registry entry of the step takes the problem (ladder_d_registry.h).
template <class Step>
absl::Status LaunchLadderD(const Problem& problem, const Arguments& arguments,
                           const LaunchTarget& target) {
  if constexpr (Step::kChoosesTile) {
    const std::int64_t pairs = std::max(ptx::Multiprocessors() / 2, 1u);
    if (WaveColumns(problem.m, problem.n, pairs, D12Narrow::kTileN) <
        WaveColumns(problem.m, problem.n, pairs, Step::kTileN)) {
      return LaunchLadderDTile<D12Narrow>(problem, arguments, target);
    }
  }
  return LaunchLadderDTile<Step>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm100
