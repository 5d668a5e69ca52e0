// Where the codes, scales and zero points of a packed B come from: a value.
#pragma once

#include <cstdint>

#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/problem.h"

namespace gemmd::hopper::quant {

struct PackedPlaces {
  CodeFormat format = CodeFormat::kInteger;
  std::int64_t line_stride = 0;  // codes
  std::int64_t k_stride = 0;
  std::int64_t scale_line_stride = 0;
  std::int64_t scale_block_stride = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t groups = 0;
  std::int64_t scale_blocks = 0;  // of a line: what a scale is for
  std::int64_t units = 0;
  std::uint32_t bias = 0;  // that is added to codes and zero points: 8 to those of int4
};

inline CodeFormat CodeFormatOf(const Problem& problem) {
  return problem.b.type == DataType::kFp4E2M1 ? CodeFormat::kE2m1 : CodeFormat::kInteger;
}

// REQUIRES: PackingRejection() is empty.
inline PackedPlaces PlacesOf(const Problem& problem) {
  PackedPlaces places;
  places.format = CodeFormatOf(problem);
  places.line_stride = problem.b_column_stride();
  places.k_stride = problem.b_inner_stride();
  places.n = problem.n;
  places.k = problem.k;
  places.groups = GroupsOf(problem.k);
  const std::int64_t lines = problem.b_scale_lines == 0 ? problem.n : problem.b_scale_lines;
  const std::int64_t block_k = kGroupK / ScalesOf(places.format);
  places.scale_blocks = (problem.k + block_k - 1) / block_k;
  const bool is_along_k = problem.b_scaling.order == ScaleOrder::kAlongK;
  places.scale_line_stride = is_along_k ? places.scale_blocks : 1;
  places.scale_block_stride = is_along_k ? 1 : lines;
  places.units = UnitsOf(problem.n, problem.k);
  places.bias = problem.b.type == DataType::kInt4 ? 8 : 0;
  return places;
}

// Bytes of a piece of the packed plane.
constexpr int PieceBytes(CodeFormat format, WeightPlane plane) {
  if (plane == WeightPlane::kScales) return ScaleBytes(format);
  return plane == WeightPlane::kCodes ? kCodeBytes : kZeroBytes;
}

}  // namespace gemmd::hopper::quant
