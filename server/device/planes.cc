#include "server/device/planes.h"

namespace gemmd {

absl::string_view Name(PlaneName plane) {
  switch (plane) {
    case PlaneName::kData:
      return "data";
    case PlaneName::kScales:
      return "scales";
    case PlaneName::kZeroPoints:
      return "zero_points";
    case PlaneName::kTensorScale:
      return "tensor_scale";
    case PlaneName::kOffsets:
      return "offsets";
  }
  return "?";
}

bool HasPlane(const Problem& problem, WorkPlane plane) {
  switch (plane) {
    case WorkPlane::kA:
    case WorkPlane::kB:
      return true;
    case WorkPlane::kC:
      return problem.epilogue.beta != 0;
    case WorkPlane::kBias:
      return problem.epilogue.has_bias;
    case WorkPlane::kAScales:
      return problem.a_scaling.has_scales;
    case WorkPlane::kBScales:
      return problem.b_scaling.has_scales;
    case WorkPlane::kAZeroPoints:
      return problem.a_scaling.has_zero_points;
    case WorkPlane::kBZeroPoints:
      return problem.b_scaling.has_zero_points;
    case WorkPlane::kATensorScale:
      return problem.a_scaling.has_tensor_scale;
    case WorkPlane::kBTensorScale:
      return problem.b_scaling.has_tensor_scale;
    case WorkPlane::kAOffsets:
      return problem.a_scaling.has_offsets;
    case WorkPlane::kBOffsets:
      return problem.b_scaling.has_offsets;
  }
  return false;
}

MatrixLayout PlaneOf(const Problem& problem, WorkPlane plane) {
  const auto line = [](DataType type, std::int64_t count) {
    return MatrixLayout{type, 1, count, Order::kRowMajor, count};
  };
  const auto a_count = [&problem] { return problem.a_scaling.count(problem.m, problem.k); };
  const auto b_count = [&problem] { return problem.b_scaling.count(problem.n, problem.k); };
  switch (plane) {
    case WorkPlane::kA:
      return problem.a;
    case WorkPlane::kB:
      return problem.b;
    case WorkPlane::kC:
      return problem.c;
    case WorkPlane::kBias:
      return line(problem.d.type, problem.n);
    case WorkPlane::kAScales:
    case WorkPlane::kAOffsets:
      return line(problem.a_scaling.type, a_count());
    case WorkPlane::kBScales:
    case WorkPlane::kBOffsets:
      return line(problem.b_scaling.type, b_count());
    case WorkPlane::kAZeroPoints:
      return line(DataType::kUint8, a_count());
    case WorkPlane::kBZeroPoints:
      return line(DataType::kUint8, b_count());
    case WorkPlane::kATensorScale:
    case WorkPlane::kBTensorScale:
      return line(DataType::kF32, 1);
  }
  return {};
}

std::optional<WeightPlane> PackedPlaneOf(const Problem& problem, WorkPlane plane) {
  if (problem.b_packing == Packing::kNone) return std::nullopt;
  if (plane == WorkPlane::kB) return WeightPlane::kCodes;
  if (plane == WorkPlane::kBScales) return WeightPlane::kScales;
  if (plane == WorkPlane::kBZeroPoints) return WeightPlane::kZeroPoints;
  if (plane == WorkPlane::kBOffsets) return WeightPlane::kOffsets;
  return std::nullopt;
}

MatrixLayout ResidentPlaneOf(const Problem& landed, WorkPlane plane) {
  const std::optional<WeightPlane> packed = PackedPlaneOf(landed, plane);
  if (!packed.has_value()) return PlaneOf(landed, plane);
  const std::uint64_t piece_bytes = PackedPieceBytes(landed, *packed);
  const auto pieces = static_cast<std::int64_t>(PackedBytes(landed, *packed) / piece_bytes);
  const auto bytes = static_cast<std::int64_t>(piece_bytes);
  return {DataType::kUint8, pieces, bytes, Order::kRowMajor, bytes};
}

std::uint64_t PlaneBytes(const Problem& problem, WorkPlane plane) {
  return HasPlane(problem, plane) ? PlaneOf(problem, plane).size_bytes() : 0;
}

std::uint64_t ScaleBytes(const Problem& problem) {
  std::uint64_t bytes = 0;
  for (const WorkPlane plane : kScalePlanes) bytes += PlaneBytes(problem, plane);
  return bytes;
}

std::uint64_t ProductBytes(const Problem& problem) {
  std::uint64_t bytes = problem.d.size_bytes();
  for (const WorkPlane plane : kWorkPlanes) bytes += PlaneBytes(problem, plane);
  return bytes;
}

Arguments ArgumentsOf(const Planes<const void*>& planes) {
  Arguments arguments;
  arguments.a = planes[WorkPlane::kA];
  arguments.b = planes[WorkPlane::kB];
  arguments.c = planes[WorkPlane::kC];
  arguments.bias = planes[WorkPlane::kBias];
  arguments.a_scales = planes[WorkPlane::kAScales];
  arguments.b_scales = planes[WorkPlane::kBScales];
  arguments.a_zero_points = planes[WorkPlane::kAZeroPoints];
  arguments.b_zero_points = planes[WorkPlane::kBZeroPoints];
  arguments.a_tensor_scale = static_cast<const float*>(planes[WorkPlane::kATensorScale]);
  arguments.b_tensor_scale = static_cast<const float*>(planes[WorkPlane::kBTensorScale]);
  arguments.a_offsets = planes[WorkPlane::kAOffsets];
  arguments.b_offsets = planes[WorkPlane::kBOffsets];
  return arguments;
}

}  // namespace gemmd
