// Host code of the passes ahead of a product of rows of f32 and behind it, compiled for the device
// and for the emulator.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/hopper/quant/float_rows.h"
#include "kernels/hopper/quant/float_rows_places.h"
#include "kernels/hopper/quant/result.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// Queues the rows of bf16 of at most kFloatRowsAtOnce rows of f32, into the workspace.
inline absl::Status LaunchSplitRows(const Problem& problem, const Arguments& arguments,
                                    const LaunchTarget& target) {
  const Problem parts = ProductOfParts(problem);
  SplitRowsParams params = {};
  params.a = static_cast<const float*>(arguments.a);
  params.row_stride = problem.a_row_stride();
  params.k = static_cast<std::int32_t>(problem.k);
  params.parts = static_cast<std::uint16_t*>(arguments.workspace);
  constexpr std::int64_t kBlockK = std::int64_t{kFloatRowThreads} * 8;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant split rows";
  shape.blocks_x = static_cast<std::uint32_t>(CeilOfRatio(problem.k, kBlockK));
  shape.blocks_y = static_cast<std::uint32_t>(problem.m);
  shape.threads = kFloatRowThreads;
  shape.overlaps_preceding = true;
  return ptx::Launch(SplitRows, shape, params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.workspace, parts.a.size_bytes(), "parts of rows", false}},
                     target);
}

// Queues D of the sums of the product's rows, which are in the workspace.
inline absl::Status LaunchAddRows(const Problem& problem, const Arguments& arguments,
                                  const LaunchTarget& target) {
  const Problem parts = ProductOfParts(problem);
  const auto* const sums =
      static_cast<const std::uint8_t*>(arguments.workspace) + PlacesOfParts(parts).sums;
  AddRowsParams params = {};
  SetResult(problem, arguments, &params.result);
  params.sums = reinterpret_cast<const float*>(sums);
  params.row_stride = parts.d.row_stride();
  params.column_stride = parts.d.column_stride();
  // Neighbours of a warp are neighbours in D.
  params.row_threads_log2 = problem.d.order == Order::kRowMajor ? 0 : 5;
  const std::int64_t block_rows = std::int64_t{1} << params.row_threads_log2;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant add rows";
  shape.blocks_x =
      static_cast<std::uint32_t>(CeilOfRatio(problem.n, kFloatRowThreads / block_rows));
  shape.blocks_y = static_cast<std::uint32_t>(CeilOfRatio(problem.m, block_rows));
  shape.threads = kFloatRowThreads;
  shape.overlaps_preceding = true;
  std::vector<ptx::DeviceBuffer> buffers = ResultBuffers(problem, arguments);
  buffers.push_back({sums, parts.d.size_bytes(), "sums of parts"});
  return ptx::Launch(AddRows, shape, params, buffers, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
