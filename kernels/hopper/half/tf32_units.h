// A tf32 problem as one of elements of 16 bits, which the Hopper GEMM's layouts and maps count in:
// K is twice as long, and each 32 bytes of it are an instruction's, as they are of halves. Host
// code, pure.
#pragma once

#include "kernels/problem.h"

namespace gemmd::hopper::half {

// REQUIRES: neighbours along K.
inline void CountInHalves(MatrixLayout* layout) {
  layout->type = DataType::kBf16;
  (layout->order == Order::kRowMajor ? layout->columns : layout->rows) *= 2;
  layout->leading_dimension *= 2;
}

// REQUIRES: both operands have neighbours along K.
inline Problem InHalves(const Problem& problem) {
  Problem halves = problem;
  halves.k *= 2;
  CountInHalves(&halves.a);
  CountInHalves(&halves.b);
  return halves;
}

}  // namespace gemmd::hopper::half
