// Host code of the ragged product, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "kernels/hopper/ragged/product.h"
#include "kernels/hopper/ragged/repack.h"
#include "kernels/hopper/ragged/workspace.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::ragged {
inline namespace GEMMD_BACKEND {

inline absl::StatusOr<ptx::TensorMap> MakeMap(const void* base, ptx::TensorElement element,
                                              std::uint64_t length, std::uint64_t lines,
                                              std::int64_t pitch, bool is_a) {
  ptx::TensorMapSpec spec;
  spec.base = base;
  spec.element = element;
  spec.size[0] = length;
  spec.size[1] = lines;
  spec.stride_bytes[1] = static_cast<std::uint64_t>(pitch) * 2;
  spec.box[0] = is_a ? 64 : ProductLayout::kBoxColumns;
  spec.box[1] = is_a ? kTileM : ProductLayout::kBoxRows;
  spec.swizzle = is_a ? ptx::Swizzle::k128B : ptx::Swizzle::kNone;
  return ptx::MakeTensorMap(spec);
}

// Sets the maps of B: class c has rows c, c + 8, ... from the unit of 16 bytes in which the first
// of them begins.
inline absl::Status SetB(const Problem& problem, const void* b, ptx::TensorElement element,
                         ProductParams* params) {
  const std::int64_t pitch = problem.b.leading_dimension;
  for (int c = 0; c < kClasses; ++c) {
    // Where N is too small for a class to have rows, its results are not stored, and any row will
    // do.
    const std::int64_t first = c < problem.n ? c : 0;
    const std::int64_t lines = (problem.n - first + kClasses - 1) / kClasses;
    const auto at =
        reinterpret_cast<std::uint64_t>(b) + static_cast<std::uint64_t>(first * pitch) * 2;
    params->shift[c] = static_cast<std::uint8_t>(at % 16 / 2);
    const absl::StatusOr<ptx::TensorMap> map =
        MakeMap(reinterpret_cast<const void*>(at / 16 * 16), element,
                static_cast<std::uint64_t>(problem.k) + params->shift[c],
                static_cast<std::uint64_t>(lines), pitch * kClasses, false);
    if (!map.ok()) return map.status();
    params->b[c] = *map;
  }
  return absl::OkStatus();
}

inline RepackPlane MakeRepackPlane(const Problem& problem, const MatrixLayout& layout,
                                   const void* from, void* to, std::int64_t lines) {
  RepackPlane plane = {};
  plane.from = static_cast<const std::uint16_t*>(from);
  plane.to = static_cast<ptx::Vector4*>(to);
  plane.from_end = reinterpret_cast<std::uint64_t>(from) + layout.size_bytes();
  plane.from_pitch = layout.leading_dimension;
  plane.to_pitch = static_cast<std::uint32_t>(PlanePitch(problem) / 8);
  plane.lines = static_cast<std::uint32_t>(lines);
  plane.length = static_cast<std::uint32_t>(problem.k);
  plane.line_units = (plane.length + 7) / 8;
  return plane;
}

// Copies what `copies` says to the workspace.
inline absl::Status LaunchRepack(const Problem& problem, const Arguments& arguments,
                                 const Copies& copies, const LaunchTarget& target) {
  if (!copies.a && !copies.b) return absl::OkStatus();
  const AlignedProblem aligned = AlignLines(problem, arguments);
  RepackParams params = {};
  std::vector<ptx::DeviceBuffer> buffers;
  std::uint64_t end = 0;  // of the workspace
  const auto add = [&](const MatrixLayout& layout, const void* from, const void* to,
                       std::int64_t lines, const char* name, RepackPlane* plane) {
    *plane = MakeRepackPlane(problem, layout, from, const_cast<void*>(to), lines);
    params.units += plane->lines * plane->line_units;
    buffers.push_back({from, layout.size_bytes(), name});
    end = reinterpret_cast<std::uint64_t>(to) + PlaneBytes(problem, lines);
  };
  if (copies.a) {
    add(problem.a, arguments.a, aligned.arguments.a, problem.m, "A", &params.planes[0]);
  }
  params.first_units = params.units;
  if (copies.b) {
    add(problem.b, arguments.b, aligned.arguments.b, problem.n, "B", &params.planes[1]);
  }
  buffers.push_back({arguments.workspace,
                     end - reinterpret_cast<std::uint64_t>(arguments.workspace), "workspace",
                     false});
  ptx::LaunchShape shape;
  shape.kernel = "sm90/ragged repack";
  shape.blocks_x = (params.units + kRepackThreads - 1) / kRepackThreads;
  shape.threads = kRepackThreads;
  shape.overlaps_preceding = true;
  return ptx::Launch(Repack, shape, params, buffers, target);
}

template <class Element>
absl::Status LaunchTyped(const Problem& problem, const Arguments& arguments,
                         const LaunchTarget& target) {
  ProductParams params = {};
  const bool is_a_aligned = AreLinesAligned(arguments.a, problem.a);
  const absl::Status repacked = LaunchRepack(problem, arguments, {!is_a_aligned, false}, target);
  if (!repacked.ok()) return repacked;
  const void* const a = is_a_aligned ? arguments.a : arguments.workspace;
  const absl::StatusOr<ptx::TensorMap> map =
      MakeMap(a, Element::kMapElement, static_cast<std::uint64_t>(problem.k),
              static_cast<std::uint64_t>(problem.m),
              is_a_aligned ? problem.a.leading_dimension : PlanePitch(problem), true);
  if (!map.ok()) return map.status();
  params.a = *map;
  const absl::Status status = SetB(problem, arguments.b, Element::kMapElement, &params);
  if (!status.ok()) return status;
  params.d = static_cast<std::uint16_t*>(arguments.d);
  params.d_pitch = problem.d.leading_dimension;
  params.m = static_cast<std::int32_t>(problem.m);
  params.n = static_cast<std::int32_t>(problem.n);
  params.k = static_cast<std::int32_t>(problem.k);
  params.tiles_m = static_cast<std::uint32_t>((problem.m + kTileM - 1) / kTileM);
  params.is_b_settled = !is_a_aligned || arguments.b_is_settled;

  ptx::LaunchShape shape;
  shape.kernel = "sm90/ragged256x128";
  shape.blocks_x = params.tiles_m * static_cast<std::uint32_t>((problem.n + kTileN - 1) / kTileN);
  shape.threads = ProductLayout::kThreads;
  shape.shared_bytes = ProductLayout::kSharedBytes;
  shape.overlaps_preceding = true;
  // B's buffer begins at the unit in which its first element lies, as the first class does.
  const auto b = reinterpret_cast<std::uint64_t>(arguments.b);
  const std::uint64_t a_bytes =
      is_a_aligned ? problem.a.size_bytes() : PlaneBytes(problem, problem.m);
  return ptx::Launch(Product<Element>, shape, params,
                     {{a, a_bytes, "A"},
                      {reinterpret_cast<const void*>(b / 16 * 16), problem.b.size_bytes() + b % 16,
                       "B", true, params.is_b_settled},
                      {arguments.d, problem.d.size_bytes(), "D", false}},
                     target);
}

// Copies each operand whose lines are not aligned, for kernels that take aligned ones, to where
// AlignLines() (workspace.h) has it.
inline absl::Status LaunchRepackOfBoth(const Problem& problem, const Arguments& arguments,
                                       const LaunchTarget& target) {
  return LaunchRepack(problem, arguments, AlignLines(problem, arguments).copies, target);
}

// REQUIRES: Rejection() of the entry is empty.
inline absl::Status LaunchProduct(const Problem& problem, const Arguments& arguments,
                                  const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16) {
    return LaunchTyped<hopper::Bf16Element>(problem, arguments, target);
  }
  return LaunchTyped<hopper::F16Element>(problem, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::ragged
