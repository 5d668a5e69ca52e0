// Host code of the f64 product, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/f64/product.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

inline Plane PlaneOf(const MatrixLayout& layout, const void* data) {
  return {static_cast<const double*>(data), layout.leading_dimension,
          static_cast<std::int32_t>(layout.inner()), static_cast<std::int32_t>(layout.outer())};
}

// Returns whether every line starts at a multiple of 16 bytes, as TMA has it.
inline bool HasUnits(const Plane& plane) {
  return reinterpret_cast<std::uint64_t>(plane.data) % 16 == 0 && plane.stride % 2 == 0;
}

// An element is two words, so that bits are moved as they are.
template <class Tile>
ptx::TensorMapSpec SpecOf(const Plane& plane) {
  ptx::TensorMapSpec spec;
  spec.base = plane.data;
  spec.element = ptx::TensorElement::kU32;
  spec.size[0] = 2 * static_cast<std::uint64_t>(plane.length);
  spec.size[1] = static_cast<std::uint64_t>(plane.lines);
  spec.stride_bytes[1] = static_cast<std::uint64_t>(plane.stride) * 8;
  spec.box[0] = 2 * kSpan;
  spec.box[1] = Tile::kBoxLines;
  spec.swizzle = ptx::Swizzle::k128B;
  return spec;
}

inline void SetEpilogue(const Problem& problem, const Arguments& arguments, ProductParams* params) {
  const Epilogue& epilogue = problem.epilogue;
  params->d = static_cast<double*>(arguments.d);
  params->d_row_stride = problem.d.column_stride();
  params->d_column_stride = problem.d.row_stride();
  params->has_epilogue = hopper::NeedsEpilogue(problem);
  if (epilogue.beta != 0) params->c = static_cast<const double*>(arguments.c);
  params->c_row_stride = problem.c.column_stride();
  params->c_column_stride = problem.c.row_stride();
  if (epilogue.has_bias) params->bias = static_cast<const double*>(arguments.bias);
  params->alpha = epilogue.alpha;
  params->beta = epilogue.beta;
  params->activation = epilogue.activation;
}

template <int kTiling, Major kRowMajor, Major kColumnMajor>
absl::Status LaunchTiling(const Problem& problem, const Config& config, const Arguments& arguments,
                          const LaunchTarget& target) {
  using Layout = ProductLayout<kTiling, kRowMajor, kColumnMajor>;
  ProductParams params = {};
  params.rows = PlaneOf(problem.b, arguments.b);
  params.columns = PlaneOf(problem.a, arguments.a);
  params.by_elements = !HasUnits(params.rows) || !HasUnits(params.columns);
  if (!params.by_elements) {
    const absl::StatusOr<ptx::TensorMap> rows =
        ptx::MakeTensorMap(SpecOf<typename Layout::Rows>(params.rows));
    if (!rows.ok()) return rows.status();
    const absl::StatusOr<ptx::TensorMap> columns =
        ptx::MakeTensorMap(SpecOf<typename Layout::Columns>(params.columns));
    if (!columns.ok()) return columns.status();
    params.row_map = *rows;
    params.column_map = *columns;
  }
  params.rows_are_settled = arguments.b_is_settled;
  params.columns_are_settled = arguments.a_is_settled;
  params.m = static_cast<std::int32_t>(problem.n);
  params.n = static_cast<std::int32_t>(problem.m);
  params.k = static_cast<std::int32_t>(problem.k);
  params.raster = hopper::MakeRaster(hopper::FrameTiles(problem.n, Layout::kTileRows),
                                     hopper::FrameTiles(problem.m, Layout::kTileColumns),
                                     static_cast<std::uint32_t>(std::max(1, config.raster_group)),
                                     hopper::RasterOrder::kRowGroups);
  // With one column of tiles B is read once.
  params.row_policy =
      params.raster.tiles_n == 1 ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kNormal;
  SetEpilogue(problem, arguments, &params);
  ptx::LaunchShape shape;
  shape.kernel = "sm90/f64";
  shape.blocks_x = std::min(ptx::Multiprocessors(), params.raster.tiles_m * params.raster.tiles_n);
  shape.threads = Layout::kThreads;
  shape.shared_bytes = Layout::kSharedBytes;
  shape.overlaps_preceding = true;
  std::vector<ptx::DeviceBuffer> buffers = {
      {arguments.a, problem.a.size_bytes(), "A", true, arguments.a_is_settled},
      {arguments.b, problem.b.size_bytes(), "B", true, arguments.b_is_settled},
      {arguments.d, problem.d.size_bytes(), "D", false}};
  if (params.c != nullptr) buffers.push_back({arguments.c, problem.c.size_bytes(), "C"});
  if (params.bias != nullptr) {
    buffers.push_back({arguments.bias, static_cast<std::uint64_t>(problem.n) * 8, "bias"});
  }
  return ptx::Launch(F64Product<kTiling, kRowMajor, kColumnMajor>, shape, params, buffers, target);
}

// REQUIRES: Rejection() of the entry is empty.
template <int kTiling>
absl::Status LaunchProduct(const Problem& problem, const Config& config, const Arguments& arguments,
                           const LaunchTarget& target) {
  const bool rows_are_k_major = problem.b_is_k_major();
  if (problem.a_is_k_major()) {
    return rows_are_k_major
               ? LaunchTiling<kTiling, Major::kK, Major::kK>(problem, config, arguments, target)
               : LaunchTiling<kTiling, Major::kMn, Major::kK>(problem, config, arguments, target);
  }
  return rows_are_k_major
             ? LaunchTiling<kTiling, Major::kK, Major::kMn>(problem, config, arguments, target)
             : LaunchTiling<kTiling, Major::kMn, Major::kMn>(problem, config, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
