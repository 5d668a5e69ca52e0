// Where the codes, scales, zero points and offsets of a packed B come from: a value.
#pragma once

#include <cstdint>

#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packing.h"
#include "kernels/problem.h"

namespace gemmd::hopper::quant {

struct PackedPlaces {
  CodeFormat format = CodeFormat::kInt4;
  std::int64_t line_stride = 0;  // codes
  std::int64_t k_stride = 0;
  std::int64_t scale_line_stride = 0;
  std::int64_t scale_block_stride = 0;
  std::int64_t scale_lines = 1;  // that have one scale
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t groups = 0;
  std::int64_t scale_blocks = 0;  // of a line: what a scale is for
  std::int64_t units = 0;
  std::int64_t scale_groups = 0;  // `groups`, or one where scales are for all of K
  std::int64_t scale_units = 0;
  // Packing adds it to codes and zero points, modulo their range: half of that for int4 and uint8.
  std::uint32_t bias = 0;
};

// The elements of a plane of scales, offsets or zero points. Packing adds `bias` to a byte, modulo
// 256.
struct VectorElements {
  std::int64_t size;   // bytes
  std::int64_t count;  // of a line's group
  std::uint32_t bias;
};

constexpr CodeFormat ByScaleK(std::uint16_t k, CodeFormat of_32, CodeFormat of_64,
                              CodeFormat of_128) {
  if (k == 32) return of_32;
  return k == 64 ? of_64 : of_128;
}
// A scale for all of K is that of each group of 128.
inline CodeFormat CodeFormatOf(const Problem& problem) {
  const Scaling& scaling = problem.b_scaling;
  switch (problem.b.type) {
    case DataType::kFp4E2M1:
      return scaling.has_tensor_scale ? CodeFormat::kNvfp4 : CodeFormat::kMxfp4;
    case DataType::kUint8:
      if (scaling.has_offsets) return CodeFormat::kUint8G32Offset;
      [[fallthrough]];
    case DataType::kInt8:
      return ByScaleK(scaling.block_k, CodeFormat::kInt8G32, CodeFormat::kInt8G64,
                      CodeFormat::kInt8);
    case DataType::kFp8E4M3:
      return scaling.type == DataType::kE8M0 ? CodeFormat::kMxE4m3 : CodeFormat::kE4m3;
    case DataType::kFp8E5M2:
      return scaling.type == DataType::kE8M0 ? CodeFormat::kMxE5m2 : CodeFormat::kE5m2;
    case DataType::kFp6E3M2:
      return CodeFormat::kMxE3m2;
    case DataType::kFp6E2M3:
      return CodeFormat::kMxE2m3;
    case DataType::kNf4:
    case DataType::kBnbFp4:
      return CodeFormat::kTableG64Float;
    case DataType::kIq4Nl:
      return scaling.type == DataType::kF32 ? CodeFormat::kIq4NlG32Float : CodeFormat::kIq4NlG32;
    default:
      if (scaling.has_offsets) {
        if (scaling.type == DataType::kF32) return CodeFormat::kUint4G32FloatOffset;
        return ByScaleK(scaling.block_k, CodeFormat::kUint4G32Offset, CodeFormat::kUint4G64Offset,
                        CodeFormat::kUint4Offset);
      }
      return ByScaleK(scaling.block_k, CodeFormat::kInt4G32, CodeFormat::kInt4G64,
                      CodeFormat::kInt4);
  }
}
constexpr std::uint32_t BiasOf(DataType type) {
  if (type == DataType::kInt4) return 8;
  return type == DataType::kUint8 ? 128 : 0;
}
inline bool ScalesAreOfLines(const Problem& problem) { return problem.b_scaling.block_k == kWhole; }
// Units of a plane of B in a number of lines.
inline std::int64_t UnitsOf(const Problem& problem, WeightPlane plane, std::int64_t lines) {
  const bool is_one_group = plane != WeightPlane::kCodes && ScalesAreOfLines(problem);
  return UnitsOf(lines, is_one_group ? kGroupK : problem.k);
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
  const Scaling& scaling = problem.b_scaling;
  const std::int64_t lines =
      scaling.line_blocks(problem.b_scale_lines == 0 ? problem.n : problem.b_scale_lines);
  places.scale_blocks = scaling.k_blocks(problem.k);
  const bool is_along_k = scaling.order == ScaleOrder::kAlongK;
  places.scale_line_stride = is_along_k ? places.scale_blocks : 1;
  places.scale_block_stride = is_along_k ? 1 : lines;
  places.scale_lines = scaling.block_lines == kWhole ? problem.n : scaling.block_lines;
  places.scale_groups = ScalesAreOfLines(problem) ? 1 : places.groups;
  places.units = UnitsOf(problem, WeightPlane::kCodes, problem.n);
  places.scale_units = UnitsOf(problem, WeightPlane::kScales, problem.n);
  places.bias = BiasOf(problem.b.type);
  return places;
}

inline VectorElements ElementsOf(const PackedPlaces& places, WeightPlane plane) {
  const FormatTraits traits = TraitsOf(places.format);
  if (plane == WeightPlane::kZeroPoints) return {1, traits.scales, places.bias};
  const std::uint32_t bias = places.format == CodeFormat::kNvfp4 ? kNvfp4ScaleBias : 0;
  return {traits.scale_size, traits.scales, bias};
}

// Bytes of a piece of the packed plane.
constexpr int PieceBytes(CodeFormat format, WeightPlane plane) {
  if (plane == WeightPlane::kCodes) return CodeBytes(CodeOf(format));
  return plane == WeightPlane::kZeroPoints ? ZeroBytes(format) : ScaleBytes(format);
}

}  // namespace gemmd::hopper::quant
