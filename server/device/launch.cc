#include "server/device/launch.h"

namespace gemmd {

MatrixLayout PlaneOf(const Problem& problem, WorkPlane plane) {
  const auto line = [](DataType type, std::int64_t count) {
    return MatrixLayout{type, 1, count, Order::kRowMajor, count};
  };
  const auto scales = [&line](Scaling scaling, std::int64_t count) {
    return line(DataType::kF32, scaling == Scaling::kVector ? count : 1);
  };
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
      return scales(problem.a_scaling, problem.m);
    case WorkPlane::kBScales:
      return scales(problem.b_scaling, problem.n);
  }
  return {};
}

std::shared_ptr<const ResidentOperand>& ResidentPlanes::of(WorkPlane plane) {
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
      return a_scales;
    case WorkPlane::kBScales:
      break;
  }
  return b_scales;
}

Residency ResidentPlanes::which() const {
  return {a != nullptr,        b != nullptr,        c != nullptr, bias != nullptr,
          a_scales != nullptr, b_scales != nullptr, d != nullptr};
}

}  // namespace gemmd
