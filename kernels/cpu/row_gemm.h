// A product whose bits do not depend on which rows stand beside a row.
//
// An element of C is one chain of fused multiply-adds over K in ascending order (on a machine
// without FMA: of products and sums) in f64, and in f32 where K is at most 256. Else K is cut into
// spans of 1024, in a span element k belongs to chain k % 16, and C is the sum of all chains, each
// from 0 on, in ascending order of span and chain. So its bits depend on its own row of A and its
// own column of B alone: not on M, not on N, not on its place among them, nor on the width of the
// registers that compute it. OpenBLAS does not promise that: in version 0.3.21 sgemm, on Haswell
// and Zen, computes six rows of twelve in one way and six in another, and dgemm, on SkylakeX, rows
// by their place too.
//
// 16 chains side by side are what registers sum along K, so that lines of K elements, as weights
// lie, are multiplied where they are. They err less than one chain of all of K: a term is rounded
// at most RowGemmRoundings() times, and not K times. f64 keeps the order that kernels of GPUs have.
#pragma once

#include <cstdint>

#include "kernels/cpu/row_source.h"

namespace gemmd {

// The instructions that compute it; the best that the processor has are chosen when the program
// runs.
enum class RowGemmForm : std::uint8_t {
  kPlain,   // any processor's; products and sums
  kAvx2,    // with FMA
  kAvx512,  // the same bits as kAvx2
};
bool HasRowGemmForm(RowGemmForm form);
RowGemmForm BestRowGemmForm();

// With at most so many rows lines of columns are multiplied where they lie, which takes less time
// than packing B. Lines of K are with RowTile::few_rows, which is no less (row_tile.h).
inline constexpr std::int64_t kFewRows = 8;

// C (m x n, row-major) = A * op(B); A is row-major m x k, `b` describes n columns of k elements.
// One thread. REQUIRES: the processor has the form.
template <typename Real>
void RowGemm(const Columns<Real>& b, std::int64_t m, std::int64_t n, std::int64_t k, const Real* a,
             std::int64_t lda, Real* c, std::int64_t ldc, RowGemmForm form = BestRowGemmForm());

// The roundings that a term of a sum goes through, at most. With u the unit roundoff, |C - exact|
// is at most so many times u |A| |B|, and terms of u^2 (Higham, "Accuracy and Stability of
// Numerical Algorithms", 2nd ed., section 3.1).
template <typename Real>
std::int64_t RowGemmRoundings(std::int64_t k);

// The arithmetic of an element of C on this machine: "fma", of 16 chains "fma16", or
// "multiply-add", "multiply-add16".
template <typename Real>
const char* RowGemmArithmetic(std::int64_t k);

}  // namespace gemmd
