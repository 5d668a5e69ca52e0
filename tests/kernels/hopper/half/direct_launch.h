// Launches a Hopper kernel in the emulator without the registry, so that a changed copy of a
// source can stand in for it: D = A * transposed B, f16, row-major. Included after the kernel.
#pragma once

#include <algorithm>
#include <string>

#include "kernels/emulator/launch.h"
#include "kernels/ptx/tensor_map.h"
#include "tests/kernels/emulator/half_matrix.h"
#include "tests/kernels/emulator/shape.h"

namespace gemmd::testing {

inline ptx::TensorMap HalfMap(const HalfMatrix& matrix, int box_columns, int box_rows,
                              ptx::Swizzle swizzle, int rank = 2) {
  ptx::TensorMapSpec spec;
  spec.rank = rank;
  spec.base = matrix.data();
  spec.element = ptx::TensorElement::kF16;
  spec.size[0] = static_cast<std::uint64_t>(matrix.columns());
  spec.size[1] = static_cast<std::uint64_t>(matrix.rows());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension()) * 2;
  if (rank == 3) {
    spec.size[2] = 1;
    spec.stride_bytes[2] = spec.stride_bytes[1];
  }
  spec.box[0] = static_cast<std::uint32_t>(box_columns);
  spec.box[1] = static_cast<std::uint32_t>(box_rows);
  spec.swizzle = swizzle;
  return *ptx::MakeTensorMap(spec);
}

// Splits the rows of a launch into two groups by one B, of which the first has few.
template <class Layout>
void SetGroups(const HalfMatrix& rows, hopper::half::WgmmaGroupParams* params) {
  constexpr std::int32_t kFew = 5;
  constexpr std::uint32_t kShort = 16;
  params->band = 8;
  params->count = 2;
  params->rows[0] = {0, kFew, 0, 0};
  params->rows[1] = {kFew, params->m, 1, 0};
  const int left = params->m - kFew;
  params->raster = hopper::MakeRaster(
      1 + static_cast<std::uint32_t>((left + Layout::kTileM - 1) / Layout::kTileM),
      params->raster.tiles_n, 8, hopper::RasterOrder::kRowGroups);
  params->short_boxes = 1;
  params->short_box[0] = {HalfMap(rows, 64, kShort, ptx::Swizzle::k128B), kShort};
}

// The report's message, "wrong bits", or nothing where D is right.
template <int kTiling, bool kHasEpilogue, class Params = hopper::half::WgmmaGemmParams>
std::string RunDirect(const Shape& shape, const emulator::Options& options,
                      bool is_settled = false) {
  using Layout = hopper::half::WgmmaLayout<kTiling, ptx::Major::kK, ptx::Major::kK>;
  HalfMatrix a(shape.m, shape.k);
  HalfMatrix b(shape.n, shape.k);
  HalfMatrix d(shape.m, shape.n);
  a.FillRandom(emulator::HalfFormat::kF16, 1);
  b.FillRandom(emulator::HalfFormat::kF16, 2);
  d.Fill(0x7fc1);
  const HalfMatrix& rows = a;
  const HalfMatrix& columns = b;
  // The policy, of which none is 0, is set below.
  // NOLINTNEXTLINE(bugprone-invalid-enum-default-initialization)
  Params params = {};
  params.m = static_cast<std::int32_t>(rows.rows());
  params.n = static_cast<std::int32_t>(columns.rows());
  params.k = static_cast<std::int32_t>(shape.k);
  params.k_step = hopper::half::kTileK;
  const auto tiles = [](std::int64_t lines, int tile) {
    return static_cast<std::uint32_t>((lines + tile - 1) / tile);
  };
  params.raster = hopper::MakeRaster(tiles(params.m, Layout::kTileM * Layout::kClusterM),
                                     tiles(params.n, Layout::kTileN * Layout::kClusterN), 8,
                                     hopper::RasterOrder::kRowGroups);
  params.box_rows = Layout::kTileM;
  params.stage_bytes = Layout::kLoadedBytes;
  int box_rows = Layout::Rows::kBoxLines;
  if (Layout::kCluster == 1 && params.m < Layout::kTileM) {
    box_rows = (params.m + 7) / 8 * 8;
    params.box_rows = static_cast<std::uint32_t>(box_rows);
    params.stage_bytes -= (Layout::kTileM - params.box_rows) * hopper::kSpanBytes;
  }
  params.prefetched = 2;
  params.prefetchers = 1;
  params.problems = 1;
  if (is_settled) params.settled = hopper::half::SettledOperands::kBoth;
  params.column_policy = ptx::CachePolicy::kNormal;
  params.operands[0].rows = HalfMap(rows, 64, box_rows, ptx::Swizzle::k128B);
  params.operands[0].columns = HalfMap(columns, 64, Layout::Columns::kBoxLines, ptx::Swizzle::k128B,
                                       Params::kIsGroups ? 3 : 2);
  if constexpr (Params::kIsGroups) SetGroups<Layout>(rows, &params);
  params.operands[0].d =
      HalfMap(d, Layout::kBoxColumns, 16,
              Layout::kIsBoxSwizzled ? ptx::Swizzle::k128B : ptx::Swizzle::kNone);
  params.operands[0].d_data = d.data();
  params.d_row_stride = d.leading_dimension();
  params.alpha = 1;
  // A bias of zeros, which a preceding grid might have written.
  HalfMatrix bias(1, shape.n);
  bias.Fill(0);
  params.operands[0].bias = bias.data();
  params.bias_column_step = 1;

  emulator::LaunchRequest request;
  request.kernel = Layout::kValues.name;
  constexpr std::uint32_t kMultiprocessors = 4;
  request.grid.x =
      std::min(kMultiprocessors / Layout::kCluster, params.raster.tiles_m * params.raster.tiles_n) *
      Layout::kCluster;
  request.threads = Layout::kThreads;
  request.cluster_size = Layout::kCluster;
  request.shared_bytes = Layout::kSharedBytes;
  request.overlaps_preceding = true;
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), d.Writable("D"), bias.ReadOnly("bias")};
  request.buffers[0].settled = request.buffers[1].settled = is_settled;
  const emulator::Report report = emulator::Launch(request, options, [&] {
    hopper::half::WgmmaGemm<kTiling, hopper::F16Element, ptx::Major::kK, ptx::Major::kK,
                            kHasEpilogue, Params>(params);
  });
  if (!report.ok()) return report.message;
  const std::vector<std::uint16_t> expected =
      ExactProduct(ProductForm::kF16AccumulateF32, a, b, true);
  return CountDifferent(d, expected) == 0 ? "" : "wrong bits";
}

}  // namespace gemmd::testing
