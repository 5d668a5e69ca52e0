// Checks whether D is the product that it should be, for the price of a few matrix-vector products.
//
// Freivalds' check (R. Freivalds, "Fast probabilistic algorithms", MFCS 1979): for random x of 1
// and -1, D x is compared with alpha op(A) (op(B) x) + beta C x + bias x, in binary64 (80 bits
// for f64). Rounding explains a difference of at most t_i in row i, with N the columns of D:
//
//   t_i = 6 (u ||D_i|| + e s_i + w sqrt(N))
//   s_i = |alpha| sum_k |op(A)_ik| ||op(B)_k|| + |beta| ||C_i|| + ||bias||
//
// where ||.|| is the Euclidean norm of a row, scales are part of A and B, u is the unit roundoff
// of D's type, e bounds what the accumulation loses of the magnitude s_i, and w what lies under
// the type's smallest values:
//
//   D      u      w         operands   e
//   f64    2^-53  2^-1022   f64        (K/8 + 8) 2^-52
//   f32    2^-24  2^-126    f32        (K/8 + 8) 2^-23
//   f16    2^-11  2^-24     tf32       (K/8 + 8) 2^-23 + 2^-9
//   bf16   2^-8   2^-126    f16, bf16  (K/8 + 8) 2^-23
//   int32  0      0         int8       0, or 2^-20 where D is not int32
//                           fp8        (K/32 + 4) 2^-13
//                           any, where accumulate is f16: (K + 4) 2^-11
//
// Quantized operands that kernels decode (IsDequantized()) have exact values here. Their e is that
// of f32, and 2^-17 more of plain rows by nf4 or bnb_fp4 (error_bound.h says why). Where
// accumulate is f64 or int32 it is that of f64, and 2^-24 more where D has fewer bits, because D
// may be rounded to f32 on its way. In s_i an element with an offset counts |code * scale| +
// |offset|: kernels may sum both apart. Where both operands are fp8 and the kernel is of class fast
// or serves by name alone, it may multiply codes, and e is that of fp8. An element's magnitude in
// s_i counts 2^-100 of its line's largest scale more, because values below 2^-132 of that scale may
// be lost.
//
// Signs are random and do not depend on the rounding, so a right row is over t_i with a
// probability below 2 exp(-18) (Hoeffding), and far below where errors are not the worst
// possible. A row with one wrong element that is off by 2 t_i is always over it; one with
// several is missed by each vector with a probability of at most 1/2 where they could cancel.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "kernels/verify/error_bound.h"

namespace gemmd {

// Returns whether the bounds above are known of the problem: it has no activation.
bool CanVerify(const Problem& problem);

struct VerificationOptions {
  static constexpr int kMaxVectors = 64;

  int vectors = 3;                       // 1 to kMaxVectors
  std::uint64_t seed = 0;                // of the vectors; not to be foreseen by what computes
  Accuracy accuracy;                     // of the kernel that computed D
  ParallelExecutor* executor = nullptr;  // null: the calling thread alone
};

// The largest |difference| / t_i over rows and vectors; 0 where both are 0. A product passes up
// to 1.
//
// NaN and infinities: a row of D must hold one where an operand's element in its sums is one. It
// counts infinity if it holds none, else 0. A row that holds one without that counts infinity, too;
// but 0 if its magnitude is beyond the largest value of D's type or of the accumulate type. With
// alpha 0, those of A and B may or may not show.
//
// REQUIRES: CanVerify(problem); operands and D in host memory; 1 <= options.vectors <= kMaxVectors.
double VerificationResidual(const Problem& problem, const Arguments& arguments,
                            const VerificationOptions& options);

}  // namespace gemmd
