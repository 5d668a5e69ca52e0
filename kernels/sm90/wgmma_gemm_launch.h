// Host code of the Hopper GEMM, compiled for the device and for the emulator.
#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/sm90/frame.h"
#include "kernels/sm90/wgmma_gemm.h"

namespace gemmd::sm90 {
inline namespace GEMMD_BACKEND {

// Operands of up to this many bytes are asked into the L2 ahead of the grid's turn: where
// the kernel streams, hints compete with its loads.
inline constexpr std::uint64_t kPrefetchBelowBytes = 8 << 20;
inline constexpr std::uint32_t kPrefetchedBlocks = 8;

inline absl::StatusOr<ptx::TensorMap> MakeOperandMap(const FrameOperand& operand, std::int64_t k,
                                                     ptx::TensorElement element, int box_lines) {
  ptx::TensorMapSpec spec;
  spec.base = operand.data;
  spec.element = element;
  const auto lines = static_cast<std::uint64_t>(operand.lines);
  const auto length = static_cast<std::uint64_t>(k);
  spec.size[0] = operand.is_k_major ? length : lines;
  spec.size[1] = operand.is_k_major ? lines : length;
  spec.stride_bytes[1] = static_cast<std::uint64_t>(operand.leading_dimension) * 2;
  spec.box[0] = kSpan;
  spec.box[1] = static_cast<std::uint32_t>(box_lines);
  spec.swizzle = ptx::Swizzle::k128B;
  return ptx::MakeTensorMap(spec);
}

template <class Layout>
absl::StatusOr<ptx::TensorMap> MakeOutputMap(const Frame& frame, ptx::TensorElement element) {
  ptx::TensorMapSpec spec;
  spec.base = frame.d;
  spec.element = element;
  const bool along_rows = Layout::kStoresTransposed;
  spec.size[0] = static_cast<std::uint64_t>(along_rows ? frame.rows.lines : frame.columns.lines);
  spec.size[1] = static_cast<std::uint64_t>(along_rows ? frame.columns.lines : frame.rows.lines);
  spec.stride_bytes[1] =
      static_cast<std::uint64_t>(along_rows ? frame.d_column_stride : frame.d_row_stride) * 2;
  spec.box[0] = along_rows ? 64 : Layout::kBoxColumns;
  spec.box[1] = along_rows ? Layout::kBoxColumns : 16;
  spec.swizzle = Layout::kIsBoxSwizzled ? ptx::Swizzle::k128B : ptx::Swizzle::kNone;
  return ptx::MakeTensorMap(spec);
}

inline void SetEpilogue(const Problem& problem, const Arguments& arguments, const Frame& frame,
                        WgmmaGemmParams* params) {
  const Epilogue& epilogue = problem.epilogue;
  params->c = epilogue.beta == 0 ? nullptr : arguments.c;
  params->c_row_stride = frame.is_swapped ? problem.c.column_stride() : problem.c.row_stride();
  params->c_column_stride = frame.is_swapped ? problem.c.row_stride() : problem.c.column_stride();
  params->bias = epilogue.has_bias ? arguments.bias : nullptr;
  params->bias_row_step = frame.is_swapped ? 1 : 0;
  params->bias_column_step = frame.is_swapped ? 0 : 1;
  params->alpha = static_cast<float>(epilogue.alpha);
  params->beta = static_cast<float>(epilogue.beta);
  params->activation = epilogue.activation;
  params->writes_f32 = problem.d.type == DataType::kF32;
}

template <int kTiling, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue>
absl::Status LaunchWgmmaGemm(const Problem& problem, const Config& config, const Frame& frame,
                             const Arguments& arguments, const LaunchTarget& target) {
  using Layout = WgmmaLayout<kTiling, kRowMajor, kColumnMajor>;
  WgmmaGemmParams params = {};
  params.m = static_cast<std::int32_t>(frame.rows.lines);
  params.n = static_cast<std::int32_t>(frame.columns.lines);
  params.k = static_cast<std::int32_t>(problem.k);
  params.tiles_m = FrameTiles(frame.rows.lines, Layout::kTileM * Layout::kClusterM);
  params.tiles_n = FrameTiles(frame.columns.lines, Layout::kTileN * Layout::kClusterN);
  params.raster_group = static_cast<std::uint32_t>(std::max(1, config.raster_group));
  params.d_data = arguments.d;
  params.d_row_stride = frame.d_row_stride;
  params.d_column_stride = frame.d_column_stride;
  // Rows outside the tensor cost a box as much as rows inside.
  params.box_rows = Layout::kTileM;
  params.stage_bytes = Layout::kLoadedBytes;
  int row_box = Layout::Rows::kBoxLines;
  if (Layout::Rows::kIsKMajor && Layout::kCluster == 1 && frame.rows.lines < Layout::kTileM) {
    row_box = static_cast<int>((frame.rows.lines + 7) / 8 * 8);
    params.box_rows = static_cast<std::uint32_t>(row_box);
    params.stage_bytes -= (Layout::kTileM - params.box_rows) * kSpanBytes;
  }
  const std::uint64_t bytes = problem.a.size_bytes() + problem.b.size_bytes();
  params.prefetched = bytes <= kPrefetchBelowBytes ? kPrefetchedBlocks : 0;
  // With one row of tiles, each column's operand is read once.
  params.column_policy = params.tiles_m == 1 && Layout::kCluster == 1
                             ? ptx::CachePolicy::kEvictFirst
                             : ptx::CachePolicy::kNormal;

  const auto rows = MakeOperandMap(frame.rows, problem.k, Element::kMapElement, row_box);
  const auto columns =
      MakeOperandMap(frame.columns, problem.k, Element::kMapElement, Layout::Columns::kBoxLines);
  if (!rows.ok()) return rows.status();
  if (!columns.ok()) return columns.status();
  params.rows = *rows;
  params.columns = *columns;
  if constexpr (kHasEpilogue) {
    SetEpilogue(problem, arguments, frame, &params);
  } else {
    const auto output = MakeOutputMap<Layout>(frame, Element::kMapElement);
    if (!output.ok()) return output.status();
    params.d = *output;
  }

  ptx::LaunchShape shape;
  shape.kernel = Layout::kValues.name;
  const std::uint32_t clusters = std::max(1u, ptx::Multiprocessors() / Layout::kCluster);
  shape.blocks_x = std::min(clusters, params.tiles_m * params.tiles_n) * Layout::kCluster;
  shape.threads = Layout::kThreads;
  shape.cluster_size = Layout::kCluster;
  shape.shared_bytes = Layout::kSharedBytes;
  shape.overlaps_preceding = true;
  std::vector<ptx::DeviceBuffer> buffers = {{arguments.a, problem.a.size_bytes(), "A"},
                                            {arguments.b, problem.b.size_bytes(), "B"},
                                            {arguments.d, problem.d.size_bytes(), "D", false}};
  if (params.c != nullptr) buffers.push_back({arguments.c, problem.c.size_bytes(), "C"});
  if (params.bias != nullptr) {
    buffers.push_back({arguments.bias,
                       static_cast<std::uint64_t>(problem.n * SizeBits(problem.d.type) / 8),
                       "bias"});
  }
  return ptx::Launch(WgmmaGemm<kTiling, Element, kRowMajor, kColumnMajor, kHasEpilogue>, shape,
                     params, buffers, target);
}

// By element type and majors. REQUIRES: Rejection() of the tiling's entry is empty.
template <int kTiling, class Element, bool kHasEpilogue>
absl::Status LaunchByMajor(const Problem& problem, const Config& config, const Arguments& arguments,
                           const LaunchTarget& target) {
  const Frame frame = MakeFrame(problem, arguments, kTilings[kTiling].stores_transposed);
  const auto launch = [&](auto row_major, auto column_major) {
    return LaunchWgmmaGemm<kTiling, Element, decltype(row_major)::value,
                           decltype(column_major)::value, kHasEpilogue>(problem, config, frame,
                                                                        arguments, target);
  };
  constexpr std::integral_constant<Major, Major::kK> kK;
  constexpr std::integral_constant<Major, Major::kMn> kMn;
  if constexpr (kTilings[kTiling].takes_mn_rows) {
    if (!frame.rows.is_k_major) {
      if constexpr (kTilings[kTiling].takes_mn_columns) {
        if (!frame.columns.is_k_major) return launch(kMn, kMn);
      }
      return launch(kMn, kK);
    }
  }
  if constexpr (kTilings[kTiling].takes_mn_columns) {
    if (!frame.columns.is_k_major) return launch(kK, kMn);
  }
  return launch(kK, kK);
}

template <int kTiling, class Element>
absl::Status LaunchByEpilogue(const Problem& problem, const Config& config,
                              const Arguments& arguments, const LaunchTarget& target) {
  if constexpr (kTilings[kTiling].has_epilogue) {
    if (NeedsEpilogue(problem)) {
      return LaunchByMajor<kTiling, Element, true>(problem, config, arguments, target);
    }
  }
  return LaunchByMajor<kTiling, Element, false>(problem, config, arguments, target);
}

template <int kTiling>
absl::Status LaunchTiling(const Problem& problem, const Config& config, const Arguments& arguments,
                          const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16) {
    return LaunchByEpilogue<kTiling, Bf16Element>(problem, config, arguments, target);
  }
  return LaunchByEpilogue<kTiling, F16Element>(problem, config, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm90
