// The product of two quantized operands, as exact as binary64 can state it: what kernels are
// compared with.
#pragma once

#include <vector>

#include "base/numbers/quant/quantize.h"

namespace gemmd {

struct ExactProductResult {
  // d[m * n_lines + n] is the sum over k of a.value(m, k) * b.value(n, k).
  std::vector<double> d;
  // magnitude[m * n_lines + n] is the sum over k of |a.value(m, k) * b.value(n, k)|: bounds of
  // kernels are multiples of it.
  std::vector<double> magnitude;
};

// A's lines are rows of op(A), B's are columns of op(B). REQUIRES: equal K.
//
// Where both operands are of integers, sums are made in 64-bit integers over the runs of K in which
// neither scale changes, so that they are exact; a run's sum is then multiplied by both scales,
// whose product of at most 48 bits is exact too. Otherwise each product of two values is kept as a
// sum of two binary64, which is exact where it does not underflow. Both are summed with
// compensation, so with S terms
//     |d - exact| <= 2^-53 |exact| + (S 2^-53 / (1 - S 2^-53))^2 magnitude
// (Ogita, Rump and Oishi, "Accurate Sum and Dot Product", SIAM J. Sci. Comput. 26(6), 2005,
// proposition 5.5). With one scale a line, integer products have one term and one rounding.
ExactProductResult ExactProduct(const QuantizedView& a, const QuantizedView& b);

}  // namespace gemmd
