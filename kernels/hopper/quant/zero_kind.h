// The zero points of a problem's B, as they are packed.
#pragma once

#include "kernels/hopper/quant/packed.h"
#include "kernels/problem.h"

namespace gemmd::hopper::quant {

inline ZeroKind ZeroKindOf(const Problem& problem) {
  if (problem.b_scaling.has_zero_points) return ZeroKind::kPlane;
  return problem.b.type == DataType::kInt4 ? ZeroKind::kEight : ZeroKind::kNone;
}

}  // namespace gemmd::hopper::quant
