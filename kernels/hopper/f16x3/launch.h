// Host code of the f32 product in three f16 products, compiled for the device and for the emulator:
// the split of both operands, then the product.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/hopper/common/f32_epilogue.h"
#include "kernels/hopper/f16x3/product.h"
#include "kernels/hopper/f16x3/split.h"
#include "kernels/hopper/f16x3/workspace.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

// Blocks of the split on a multiprocessor: as many as keep the memory busy. Fewer take groups of
// lines, which they read twice: their lines are then still in the L2.
inline constexpr std::uint32_t kGroupBlocksPerMultiprocessor = 2;
inline constexpr std::uint32_t kLineBlocksPerMultiprocessor = 4;
// From this K on a line keeps a block's threads busy, and groups of lines no longer fit the L2.
inline constexpr std::int64_t kLongLine = 4096;

inline hopper::Lines LinesOfA(const Problem& problem, const Arguments& arguments) {
  return {static_cast<const float*>(arguments.a), problem.a_row_stride(), problem.a_inner_stride()};
}
inline hopper::Lines LinesOfB(const Problem& problem, const Arguments& arguments) {
  return {static_cast<const float*>(arguments.b), problem.b_column_stride(),
          problem.b_inner_stride()};
}

inline SplitOperand SplitOf(const hopper::Lines& from, std::int64_t lines, std::int64_t whole,
                            int tile) {
  SplitOperand operand = {};
  operand.from = from;
  operand.lines = static_cast<std::int32_t>(lines);
  operand.groups = static_cast<std::uint32_t>(whole / 8);
  operand.tile_groups = static_cast<std::uint32_t>(tile / 8);
  operand.has_units = from.k_stride == 1 && from.line_stride % 4 == 0 &&
                      reinterpret_cast<std::uint64_t>(from.data) % 16 == 0;
  return operand;
}

inline absl::Status LaunchSplit(const Tiling& tiling, const Problem& problem,
                                const Arguments& arguments, const Workspace& workspace,
                                const LaunchTarget& target) {
  auto* const base = static_cast<unsigned char*>(arguments.workspace);
  SplitParams params = {};
  params.rows = SplitOf(LinesOfB(problem, arguments), problem.n, workspace.rows, tiling.rows());
  params.rows.to = reinterpret_cast<std::uint16_t*>(base);
  params.rows.exponents = reinterpret_cast<std::int32_t*>(base + workspace.row_exponents());
  params.columns =
      SplitOf(LinesOfA(problem, arguments), problem.m, workspace.columns, tiling.columns());
  params.columns.to = reinterpret_cast<std::uint16_t*>(base + workspace.column_parts());
  params.columns.exponents = reinterpret_cast<std::int32_t*>(base + workspace.column_exponents());
  params.k = static_cast<std::int32_t>(problem.k);
  params.k_stages = static_cast<std::uint32_t>((problem.k + kStageK - 1) / kStageK);
  const bool by_line = params.rows.has_units && params.columns.has_units && problem.k >= kLongLine;
  const std::uint32_t groups = params.rows.groups + params.columns.groups;
  ptx::LaunchShape shape;
  shape.kernel = "sm90/f32_f16x3 split";
  shape.blocks_x = by_line
                       ? std::min(groups * 8, kLineBlocksPerMultiprocessor * ptx::Multiprocessors())
                       : std::min(groups, kGroupBlocksPerMultiprocessor * ptx::Multiprocessors());
  shape.threads = by_line ? kLineThreads : kSplitThreads;
  shape.shared_bytes = by_line ? kLineSharedBytes : kSplitSharedBytes;
  shape.overlaps_preceding = true;
  return ptx::Launch(by_line ? SplitLines : SplitOperands, shape, params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.b, problem.b.size_bytes(), "B"},
                      {arguments.workspace, workspace.bytes(), "parts", false}},
                     target);
}

// The map of an operand's parts as pieces. A stage needs `piece_lines` lines of them, which are one
// box.
inline ptx::TensorMapSpec PartSpec(const void* parts, std::uint64_t bytes, int piece_lines) {
  ptx::TensorMapSpec spec;
  spec.base = parts;
  spec.element = ptx::TensorElement::kU32;
  spec.size[0] = kPieceLineBytes / 4;
  spec.size[1] = bytes / kPieceLineBytes;
  spec.stride_bytes[1] = kPieceLineBytes;
  spec.box[0] = kPieceLineBytes / 4;
  spec.box[1] = static_cast<std::uint32_t>(piece_lines);
  return spec;
}

// REQUIRES: Rejection() of the entry is empty.
template <int kTiling>
absl::Status LaunchProduct(const Problem& problem, const Config& config, const Arguments& arguments,
                           const LaunchTarget& target) {
  using Layout = ProductLayout<kTiling>;
  const Workspace workspace = WorkspaceOf(Layout::kValues, problem);
  absl::Status status = LaunchSplit(Layout::kValues, problem, arguments, workspace, target);
  if (!status.ok()) return status;
  const auto* const base = static_cast<const unsigned char*>(arguments.workspace);
  const absl::StatusOr<ptx::TensorMap> rows =
      ptx::MakeTensorMap(PartSpec(base, workspace.row_part_bytes, Layout::kRowPieceLines));
  if (!rows.ok()) return rows.status();
  const absl::StatusOr<ptx::TensorMap> columns = ptx::MakeTensorMap(PartSpec(
      base + workspace.column_parts(), workspace.column_part_bytes, Layout::kColumnPieceLines));
  if (!columns.ok()) return columns.status();
  ProductParams params = {};
  hopper::F32Params& sums = params.sums;
  sums.rows = *rows;
  sums.parts = *columns;
  sums.row_lines = LinesOfB(problem, arguments);
  sums.column_lines = LinesOfA(problem, arguments);
  sums.m = static_cast<std::int32_t>(problem.n);
  sums.n = static_cast<std::int32_t>(problem.m);
  sums.k = static_cast<std::int32_t>(problem.k);
  sums.raster =
      hopper::MakeRaster(static_cast<std::uint32_t>(workspace.rows / Layout::kTileRows),
                         static_cast<std::uint32_t>(workspace.columns / Layout::kTileColumns),
                         static_cast<std::uint32_t>(std::max(1, config.raster_group)),
                         hopper::RasterOrder::kRowGroups);
  hopper::SetEpilogue(problem, arguments, &sums);
  params.row_exponents = reinterpret_cast<const std::int32_t*>(base + workspace.row_exponents());
  params.column_exponents =
      reinterpret_cast<const std::int32_t*>(base + workspace.column_exponents());
  ptx::LaunchShape shape;
  shape.kernel = "sm90/f32_f16x3";
  shape.blocks_x = std::min(ptx::Multiprocessors(), sums.raster.tiles_m * sums.raster.tiles_n);
  shape.threads = Layout::kThreads;
  shape.shared_bytes = Layout::kSharedBytes;
  shape.overlaps_preceding = true;
  std::vector<ptx::DeviceBuffer> buffers = {{arguments.a, problem.a.size_bytes(), "A"},
                                            {arguments.b, problem.b.size_bytes(), "B"},
                                            {arguments.workspace, workspace.bytes(), "parts"},
                                            {arguments.d, problem.d.size_bytes(), "D", false}};
  if (sums.c != nullptr) buffers.push_back({arguments.c, problem.c.size_bytes(), "C"});
  if (sums.bias != nullptr) {
    buffers.push_back({arguments.bias, static_cast<std::uint64_t>(problem.n) * 4, "bias"});
  }
  return ptx::Launch(F16x3Product<kTiling>, shape, params, buffers, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
