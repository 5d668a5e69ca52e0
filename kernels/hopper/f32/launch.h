// Host code of the f32 product, compiled for the device and for the emulator: the split of the
// columns' operand, then the product.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/hopper/common/f32_epilogue.h"
#include "kernels/hopper/f32/product.h"
#include "kernels/hopper/f32/split.h"
#include "kernels/hopper/f32/workspace.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

inline std::uint32_t TilesIn(std::int64_t lines, int tile) {
  return static_cast<std::uint32_t>((lines + tile - 1) / tile);
}
inline std::int64_t BlocksOfK(std::int64_t k) { return (k + kStageK - 1) / kStageK * kStageBlocks; }

// Blocks of the split on a multiprocessor: as many as keep the memory busy.
inline constexpr std::uint32_t kSplitBlocksPerMultiprocessor = 4;

inline absl::Status LaunchSplit(const Tiling& tiling, const Problem& problem,
                                const Arguments& arguments, std::uint64_t workspace_bytes,
                                const LaunchTarget& target) {
  SplitParams params = {};
  params.from = {static_cast<const float*>(arguments.a), problem.a_row_stride(),
                 problem.a_inner_stride()};
  params.to = static_cast<std::uint16_t*>(arguments.workspace);
  params.lines = static_cast<std::int32_t>(problem.m);
  params.k = static_cast<std::int32_t>(problem.k);
  params.k_blocks = static_cast<std::int32_t>(BlocksOfK(problem.k));
  params.tiles = static_cast<std::int32_t>(TilesIn(problem.m, tiling.columns()));
  params.tile_groups = tiling.columns() / 8;
  params.starts_product_early = arguments.b_is_settled;
  const std::int64_t warps = std::int64_t{params.tiles} * params.tile_groups * params.k_blocks;
  ptx::LaunchShape shape;
  shape.kernel = "sm90/f32_bf16x6 split";
  shape.blocks_x = std::min(TilesIn(warps, kSplitThreads / 32),
                            kSplitBlocksPerMultiprocessor * ptx::Multiprocessors());
  shape.threads = kSplitThreads;
  shape.overlaps_preceding = true;
  const bool has_units = problem.a_is_k_major() && problem.a.leading_dimension % 4 == 0 &&
                         reinterpret_cast<std::uint64_t>(arguments.a) % 16 == 0;
  return ptx::Launch(has_units ? SplitColumns<true> : SplitColumns<false>, shape, params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.workspace, workspace_bytes, "parts", false}},
                     target);
}

// The map of B as rows x K.
inline ptx::TensorMapSpec RowSpec(const Problem& problem, const void* b, int tile_rows) {
  ptx::TensorMapSpec spec;
  spec.base = b;
  spec.element = ptx::TensorElement::kF32;
  const auto lines = static_cast<std::uint64_t>(problem.n);
  const auto length = static_cast<std::uint64_t>(problem.k);
  const bool is_k_major = problem.b_is_k_major();
  spec.size[0] = is_k_major ? length : lines;
  spec.size[1] = is_k_major ? lines : length;
  spec.stride_bytes[1] = static_cast<std::uint64_t>(problem.b.leading_dimension) * 4;
  spec.box[0] = is_k_major ? std::uint32_t{kBlockK} : std::uint32_t{kRowSpan};
  spec.box[1] = is_k_major ? static_cast<std::uint32_t>(tile_rows) : std::uint32_t{kBlockK};
  spec.swizzle = ptx::Swizzle::k128B;
  return spec;
}

// The map of the workspace as pieces.
template <class Layout>
ptx::TensorMapSpec PartSpec(const void* workspace, std::uint64_t workspace_bytes) {
  ptx::TensorMapSpec spec;
  spec.base = workspace;
  spec.element = ptx::TensorElement::kU32;
  spec.size[0] = kPieceLineBytes / 4;
  spec.size[1] = workspace_bytes / kPieceLineBytes;
  spec.stride_bytes[1] = kPieceLineBytes;
  spec.box[0] = kPieceLineBytes / 4;
  spec.box[1] = Layout::kPieceLines;
  return spec;
}

template <int kTiling, Major kRowMajor>
absl::Status LaunchTiling(const Problem& problem, const Config& config, const Arguments& arguments,
                          const LaunchTarget& target) {
  using Layout = ProductLayout<kTiling>;
  const std::uint64_t workspace_bytes = PartBytes(Layout::kValues, problem);
  absl::Status status = LaunchSplit(Layout::kValues, problem, arguments, workspace_bytes, target);
  if (!status.ok()) return status;
  F32Params params = {};
  const absl::StatusOr<ptx::TensorMap> rows =
      ptx::MakeTensorMap(RowSpec(problem, arguments.b, Layout::kTileRows));
  if (!rows.ok()) return rows.status();
  const absl::StatusOr<ptx::TensorMap> parts =
      ptx::MakeTensorMap(PartSpec<Layout>(arguments.workspace, workspace_bytes));
  if (!parts.ok()) return parts.status();
  params.rows = *rows;
  params.parts = *parts;
  params.row_lines = {static_cast<const float*>(arguments.b), problem.b_column_stride(),
                      problem.b_inner_stride()};
  params.column_lines = {static_cast<const float*>(arguments.a), problem.a_row_stride(),
                         problem.a_inner_stride()};
  params.m = static_cast<std::int32_t>(problem.n);
  params.n = static_cast<std::int32_t>(problem.m);
  params.k = static_cast<std::int32_t>(problem.k);
  params.raster = hopper::MakeRaster(TilesIn(problem.n, Layout::kTileRows),
                                     TilesIn(problem.m, Layout::kTileColumns),
                                     static_cast<std::uint32_t>(std::max(1, config.raster_group)),
                                     hopper::RasterOrder::kRowGroups);
  // With one column of tiles B is read once.
  params.row_policy =
      params.raster.tiles_n == 1 ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kNormal;
  SetEpilogue(problem, arguments, &params);
  ptx::LaunchShape shape;
  shape.kernel = "sm90/f32_bf16x6";
  shape.blocks_x = std::min(ptx::Multiprocessors(), params.raster.tiles_m * params.raster.tiles_n);
  shape.threads = Layout::kThreads;
  shape.shared_bytes = Layout::kSharedBytes;
  shape.overlaps_preceding = true;
  std::vector<ptx::DeviceBuffer> buffers = {{arguments.a, problem.a.size_bytes(), "A"},
                                            {arguments.b, problem.b.size_bytes(), "B", true, true},
                                            {arguments.workspace, workspace_bytes, "parts"},
                                            {arguments.d, problem.d.size_bytes(), "D", false}};
  if (params.c != nullptr) buffers.push_back({arguments.c, problem.c.size_bytes(), "C"});
  if (params.bias != nullptr) {
    buffers.push_back({arguments.bias, static_cast<std::uint64_t>(problem.n) * 4, "bias"});
  }
  return ptx::Launch(F32Product<kTiling, kRowMajor>, shape, params, buffers, target);
}

// REQUIRES: Rejection() of the entry is empty.
template <int kTiling>
absl::Status LaunchProduct(const Problem& problem, const Config& config, const Arguments& arguments,
                           const LaunchTarget& target) {
  return problem.b_is_k_major()
             ? LaunchTiling<kTiling, Major::kK>(problem, config, arguments, target)
             : LaunchTiling<kTiling, Major::kMn>(problem, config, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
