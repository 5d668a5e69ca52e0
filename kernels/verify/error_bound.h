// Bounds on what rounding costs a product. Pure functions of the problem.
#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace gemmd {

// A kernel's traits, as far as they bear on rounding.
struct Accuracy {
  bool is_reduced = false;  // Traits::is_reduced
  bool is_fast = false;     // of class fast: tensor cores may multiply codes of fp8
  bool sums_fp8 = false;    // SumsFp8InTensorCores: they do
};

Accuracy AccuracyOf(const Kernel& kernel);

// The share of an element's magnitude that accumulation may lose for all that Freivalds' check
// knows (e in freivalds.h). Errors of many elements add up there, so it is less than the worst case
// of one element.
double AccumulationLoss(const Problem& problem, const Accuracy& accuracy);

// The bound r on every element of D, by any kernel of that accuracy that takes the problem:
//
//   |D - exact| <= r (|alpha| |A| |B| + |beta C| + |bias|) + half a unit in the last place of D
//
// where A and B are the values of the operands, quantized ones decoded, |A| and |B| their
// magnitudes, of an element with an offset |code * scale| + |offset|, and products below 2^-126
// (2^-24 in D of f16) count as nothing. By the accumulate type, r is
//
//   f64                  (K + 32) 2^-53, and 2^-23 more where D has fewer bits
//   f32                  (K + 32) 2^-23, because tensor cores truncate; 2^-9 more of tf32 operands;
//                        2^-17 more of plain rows by nf4 or bnb_fp4, because a number of their
//                        tables may be the sum of two of f16 or bf16
//   f32, fp8 by fp8      and is_fast or sums_fp8: 132 * 2^-13 more, because tensor cores align the
//                        32 products of a step, and the sum so far, at 13 bits, and sums of 128 are
//                        promoted; where is_reduced nobody promotes them: 33 ceil(K/32) 2^-13 more
//   f32, with a bias     and is_fast, bf16 or f16 operands and D of their type: 2^-8 or 2^-11 more,
//                        because cuBLASLt may round to D's type before it adds a bias
//   f16                  (K + 32) 2^-11
//   int32                0 where D is int32, else 2^-20
//
// and 2^-9 more with is_reduced. It is the worst case: usual errors are far below. Nothing where
// there is an activation.
std::optional<double> ErrorBound(const Problem& problem, const Accuracy& accuracy);

}  // namespace gemmd
