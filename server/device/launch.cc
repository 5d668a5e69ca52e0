#include "server/device/launch.h"

namespace gemmd {

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
  }
  return false;
}

MatrixLayout PlaneOf(const Problem& problem, WorkPlane plane) {
  const auto line = [](DataType type, std::int64_t count) {
    return MatrixLayout{type, 1, count, Order::kRowMajor, count};
  };
  const std::int64_t a_count = problem.a_scaling.count(problem.m, problem.k);
  const std::int64_t b_count = problem.b_scaling.count(problem.n, problem.k);
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
      return line(problem.a_scaling.type, a_count);
    case WorkPlane::kBScales:
      return line(problem.b_scaling.type, b_count);
    case WorkPlane::kAZeroPoints:
      return line(DataType::kUint8, a_count);
    case WorkPlane::kBZeroPoints:
      return line(DataType::kUint8, b_count);
    case WorkPlane::kATensorScale:
    case WorkPlane::kBTensorScale:
      return line(DataType::kF32, 1);
  }
  return {};
}

std::uint64_t PlaneBytes(const Problem& problem, WorkPlane plane) {
  return HasPlane(problem, plane) ? PlaneOf(problem, plane).size_bytes() : 0;
}

std::uint64_t ScaleBytes(const Problem& problem) {
  std::uint64_t bytes = 0;
  for (const WorkPlane plane :
       {WorkPlane::kAScales, WorkPlane::kBScales, WorkPlane::kAZeroPoints, WorkPlane::kBZeroPoints,
        WorkPlane::kATensorScale, WorkPlane::kBTensorScale}) {
    bytes += PlaneBytes(problem, plane);
  }
  return bytes;
}

namespace {

// The member of HostBuffers, or of ResidentPlanes, that is the plane's.
template <typename Planes>
auto& MemberOf(Planes& planes, WorkPlane plane) {
  switch (plane) {
    case WorkPlane::kA:
      return planes.a;
    case WorkPlane::kB:
      return planes.b;
    case WorkPlane::kC:
      return planes.c;
    case WorkPlane::kBias:
      return planes.bias;
    case WorkPlane::kAScales:
      return planes.a_scales;
    case WorkPlane::kBScales:
      return planes.b_scales;
    case WorkPlane::kAZeroPoints:
      return planes.a_zero_points;
    case WorkPlane::kBZeroPoints:
      return planes.b_zero_points;
    case WorkPlane::kATensorScale:
      return planes.a_tensor_scale;
    case WorkPlane::kBTensorScale:
      break;
  }
  return planes.b_tensor_scale;
}

}  // namespace

const void*& HostBuffers::of(WorkPlane plane) { return MemberOf(*this, plane); }

std::shared_ptr<const ResidentOperand>& ResidentPlanes::of(WorkPlane plane) {
  return MemberOf(*this, plane);
}

const std::shared_ptr<const ResidentOperand>& ResidentPlanes::of(WorkPlane plane) const {
  return MemberOf(*this, plane);
}

bool Residency::of(WorkPlane plane) const {
  switch (plane) {
    case WorkPlane::kA:
      return a;
    case WorkPlane::kB:
      return b;
    case WorkPlane::kC:
      return c;
    case WorkPlane::kBias:
      return bias;
    case WorkPlane::kAScales:
    case WorkPlane::kAZeroPoints:
    case WorkPlane::kATensorScale:
      return a_scales;
    case WorkPlane::kBScales:
    case WorkPlane::kBZeroPoints:
    case WorkPlane::kBTensorScale:
      break;
  }
  return b_scales;
}

Residency ResidentPlanes::which() const {
  return {a != nullptr,        b != nullptr,        c != nullptr, bias != nullptr,
          a_scales != nullptr, b_scales != nullptr, d != nullptr};
}

}  // namespace gemmd
