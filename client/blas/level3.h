// The other routines of BLAS's third level, by halves: each is a routine of its own kind for either
// half of its triangle, and a product for the square between them, which may go to the server.
//
// `Blas` computes the parts. Splits(m, n, k, depth) says whether to halve, for a product of that
// shape; Gemm() multiplies; Rank(), Rank2(), Symmetric(), Triangular() and Solve() compute whole
// what is not halved.
#pragma once

#include <cstdint>

#include "client/blas/gemm.h"

namespace gemmd::blas {

enum class Triangle : char { kUpper = 'U', kLower = 'L' };
enum class Side : char { kLeft = 'L', kRight = 'R' };

inline Triangle Other(Triangle triangle) {
  return triangle == Triangle::kUpper ? Triangle::kLower : Triangle::kUpper;
}
inline Side Other(Side side) { return side == Side::kLeft ? Side::kRight : Side::kLeft; }

// xSYRK and xHERK: a triangle of C := alpha op(A) op(A)' + beta C, N x N, where op(A) is N x K and
// ' transposes, or conjugates too for xHERK, whose alpha and beta are real.
template <typename T>
struct Rank {
  bool is_hermitian;
  Triangle triangle;
  Op op;
  std::int64_t n;
  std::int64_t k;
  T alpha;
  const T* a;
  std::int64_t lda;
  T beta;
  T* c;
  std::int64_t ldc;
};

// xSYR2K and xHER2K: C := alpha op(A) op(B)' + alpha' op(B) op(A)' + beta C.
template <typename T>
struct Rank2 {
  bool is_hermitian;
  Triangle triangle;
  Op op;
  std::int64_t n;
  std::int64_t k;
  T alpha;
  const T* a;
  std::int64_t lda;
  const T* b;
  std::int64_t ldb;
  T beta;
  T* c;
  std::int64_t ldc;
};

// xSYMM and xHEMM: C := alpha A B + beta C, or B A, where a triangle of A says all of it.
template <typename T>
struct Symmetric {
  bool is_hermitian;
  Side side;
  Triangle triangle;
  std::int64_t m;
  std::int64_t n;
  T alpha;
  const T* a;
  std::int64_t lda;
  const T* b;
  std::int64_t ldb;
  T beta;
  T* c;
  std::int64_t ldc;
};

// xTRMM, B := alpha op(A) B or alpha B op(A), and xTRSM, the same with A's inverse.
template <typename T>
struct Triangular {
  Side side;
  Triangle triangle;
  Op op;
  char diagonal;  // 'N' or 'U'
  std::int64_t m;
  std::int64_t n;
  T alpha;
  const T* a;
  std::int64_t lda;
  T* b;
  std::int64_t ldb;
};

template <typename T>
bool IsProduct(const Rank<T>& rank) {
  return rank.n > 0 && rank.k > 0 && rank.alpha != T(0) &&
         Fits(rank.op == Op::kNone ? rank.n : rank.k, rank.lda) && Fits(rank.n, rank.ldc);
}

template <typename T>
bool IsProduct(const Rank2<T>& rank) {
  const std::int64_t rows = rank.op == Op::kNone ? rank.n : rank.k;
  return rank.n > 0 && rank.k > 0 && rank.alpha != T(0) && Fits(rows, rank.lda) &&
         Fits(rows, rank.ldb) && Fits(rank.n, rank.ldc);
}

// The length of A's sides.
template <typename Routine>
std::int64_t Order(const Routine& routine) {
  return routine.side == Side::kLeft ? routine.m : routine.n;
}

template <typename T>
bool IsProduct(const Symmetric<T>& symmetric) {
  return symmetric.m > 0 && symmetric.n > 0 && symmetric.alpha != T(0) &&
         Fits(Order(symmetric), symmetric.lda) && Fits(symmetric.m, symmetric.ldb) &&
         Fits(symmetric.m, symmetric.ldc);
}

template <typename T>
bool IsProduct(const Triangular<T>& triangular) {
  return triangular.m > 0 && triangular.n > 0 && triangular.alpha != T(0) &&
         Fits(Order(triangular), triangular.lda) && Fits(triangular.m, triangular.ldb);
}

// The second half's rows of op(X): rows of X, or columns where op transposes.
template <typename T>
const T* Below(const T* x, Op op, std::int64_t rows, std::int64_t ld) {
  return op == Op::kNone ? x + rows : x + rows * ld;
}

inline Op Transposed(bool is_hermitian) { return is_hermitian ? Op::kConjugate : Op::kTranspose; }

template <typename T, typename Blas>
void ByHalves(const Rank<T>& rank, Blas& blas, int depth = 0) {
  const std::int64_t n1 = rank.n / 2;
  const std::int64_t n2 = rank.n - n1;
  if (n1 == 0 || !blas.Splits(n2, n1, rank.k, depth)) return blas.Whole(rank);
  const T* const a2 = Below(rank.a, rank.op, n1, rank.lda);
  const bool is_lower = rank.triangle == Triangle::kLower;
  const Op other = rank.op == Op::kNone ? Transposed(rank.is_hermitian) : Op::kNone;
  blas.Multiply(Gemm<T>{rank.op, other, is_lower ? n2 : n1, is_lower ? n1 : n2, rank.k, rank.alpha,
                        is_lower ? a2 : rank.a, rank.lda, is_lower ? rank.a : a2, rank.lda,
                        rank.beta, rank.c + (is_lower ? n1 : n1 * rank.ldc), rank.ldc});
  Rank<T> half = rank;
  half.n = n1;
  ByHalves(half, blas, depth + 1);
  half.n = n2;
  half.a = a2;
  half.c += n1 + n1 * rank.ldc;
  ByHalves(half, blas, depth + 1);
}

template <typename T, typename Blas>
void ByHalves(const Rank2<T>& rank, Blas& blas, int depth = 0) {
  const std::int64_t n1 = rank.n / 2;
  const std::int64_t n2 = rank.n - n1;
  if (n1 == 0 || !blas.Splits(n2, n1, rank.k, depth)) return blas.Whole(rank);
  const T* const a2 = Below(rank.a, rank.op, n1, rank.lda);
  const T* const b2 = Below(rank.b, rank.op, n1, rank.ldb);
  const bool is_lower = rank.triangle == Triangle::kLower;
  const Op other = rank.op == Op::kNone ? Transposed(rank.is_hermitian) : Op::kNone;
  T* const square = rank.c + (is_lower ? n1 : n1 * rank.ldc);
  const std::int64_t rows = is_lower ? n2 : n1;
  const std::int64_t columns = is_lower ? n1 : n2;
  blas.Multiply(Gemm<T>{rank.op, other, rows, columns, rank.k, rank.alpha, is_lower ? a2 : rank.a,
                        rank.lda, is_lower ? rank.b : b2, rank.ldb, rank.beta, square, rank.ldc});
  const T alpha = rank.is_hermitian ? Conjugate(rank.alpha) : rank.alpha;
  blas.Multiply(Gemm<T>{rank.op, other, rows, columns, rank.k, alpha, is_lower ? b2 : rank.b,
                        rank.ldb, is_lower ? rank.a : a2, rank.lda, T(1), square, rank.ldc});
  Rank2<T> half = rank;
  half.n = n1;
  ByHalves(half, blas, depth + 1);
  half.n = n2;
  half.a = a2;
  half.b = b2;
  half.c += n1 + n1 * rank.ldc;
  ByHalves(half, blas, depth + 1);
}

template <typename T, typename Blas>
void ByHalves(const Symmetric<T>& symmetric, Blas& blas, int depth = 0) {
  const bool is_left = symmetric.side == Side::kLeft;
  const std::int64_t order = Order(symmetric);
  const std::int64_t first = order / 2;
  const std::int64_t second = order - first;
  const std::int64_t others = is_left ? symmetric.n : symmetric.m;
  if (first == 0 || !blas.Splits(second, others, first, depth)) return blas.Whole(symmetric);
  // The half of B and of C that goes with A's second half.
  const T* const b2 = symmetric.b + (is_left ? first : first * symmetric.ldb);
  T* const c2 = symmetric.c + (is_left ? first : first * symmetric.ldc);
  Symmetric<T> half = symmetric;
  (is_left ? half.m : half.n) = first;
  ByHalves(half, blas, depth + 1);
  (is_left ? half.m : half.n) = second;
  half.a += first + first * symmetric.lda;
  half.b = b2;
  half.c = c2;
  ByHalves(half, blas, depth + 1);
  // A's square below the diagonal, by that which is stored.
  const bool is_lower = symmetric.triangle == Triangle::kLower;
  const T* const square = symmetric.a + (is_lower ? first : first * symmetric.lda);
  const Op below = is_lower ? Op::kNone : Transposed(symmetric.is_hermitian);
  const Op above = is_lower ? Transposed(symmetric.is_hermitian) : Op::kNone;
  const T one(1);
  if (is_left) {
    blas.Multiply(Gemm<T>{above, Op::kNone, first, symmetric.n, second, symmetric.alpha, square,
                          symmetric.lda, b2, symmetric.ldb, one, symmetric.c, symmetric.ldc});
    blas.Multiply(Gemm<T>{below, Op::kNone, second, symmetric.n, first, symmetric.alpha, square,
                          symmetric.lda, symmetric.b, symmetric.ldb, one, c2, symmetric.ldc});
  } else {
    blas.Multiply(Gemm<T>{Op::kNone, below, symmetric.m, first, second, symmetric.alpha, b2,
                          symmetric.ldb, square, symmetric.lda, one, symmetric.c, symmetric.ldc});
    blas.Multiply(Gemm<T>{Op::kNone, above, symmetric.m, second, first, symmetric.alpha,
                          symmetric.b, symmetric.ldb, square, symmetric.lda, one, c2,
                          symmetric.ldc});
  }
}

// The halves of xTRMM and xTRSM: which half of B the square reads, and which it is added to.
template <typename T>
struct TriangularHalves {
  Triangular<T> from;  // the half of A's diagonal that goes with the rows that are read
  Triangular<T> to;
  Gemm<T> square;  // to.b += op(A)'s square * from.b, without alpha
};

template <typename T>
TriangularHalves<T> HalvesOf(const Triangular<T>& whole) {
  const bool is_left = whole.side == Side::kLeft;
  const std::int64_t first = Order(whole) / 2;
  const std::int64_t second = Order(whole) - first;
  Triangular<T> upper = whole;
  (is_left ? upper.m : upper.n) = first;
  Triangular<T> lower = whole;
  (is_left ? lower.m : lower.n) = second;
  lower.a += first + first * whole.lda;
  lower.b += is_left ? first : first * whole.ldb;
  const bool is_stored_low = whole.triangle == Triangle::kLower;
  const T* const square = whole.a + (is_stored_low ? first : first * whole.lda);
  const bool is_low = is_stored_low == (whole.op == Op::kNone);  // op(A)
  // On the left a low square takes from the first half, on the right from the second.
  const bool from_first = is_low == is_left;
  const Triangular<T>& from = from_first ? upper : lower;
  const Triangular<T>& to = from_first ? lower : upper;
  const std::int64_t length = from_first ? first : second;
  Gemm<T> gemm;
  gemm.m = to.m;
  gemm.n = to.n;
  gemm.k = length;
  gemm.beta = T(1);
  gemm.c = to.b;
  gemm.ldc = whole.ldb;
  gemm.op_a = is_left ? whole.op : Op::kNone;
  gemm.op_b = is_left ? Op::kNone : whole.op;
  gemm.a = is_left ? square : from.b;
  gemm.lda = is_left ? whole.lda : whole.ldb;
  gemm.b = is_left ? from.b : square;
  gemm.ldb = is_left ? whole.ldb : whole.lda;
  return {from, to, gemm};
}

template <typename T, typename Blas>
bool Splits(const Triangular<T>& whole, Blas& blas, int depth) {
  const std::int64_t first = Order(whole) / 2;
  const std::int64_t others = whole.side == Side::kLeft ? whole.n : whole.m;
  return first != 0 && blas.Splits(Order(whole) - first, others, first, depth);
}

template <typename T, typename Blas>
void MultiplyByHalves(const Triangular<T>& whole, Blas& blas, int depth = 0) {
  if (!Splits(whole, blas, depth)) return blas.WholeProduct(whole);
  TriangularHalves<T> halves = HalvesOf(whole);
  MultiplyByHalves(halves.to, blas, depth + 1);
  halves.square.alpha = whole.alpha;
  blas.Multiply(halves.square);  // before the half that it reads is overwritten
  MultiplyByHalves(halves.from, blas, depth + 1);
}

template <typename T, typename Blas>
void SolveByHalves(const Triangular<T>& whole, Blas& blas, int depth = 0) {
  if (!Splits(whole, blas, depth)) return blas.WholeSolution(whole);
  TriangularHalves<T> halves = HalvesOf(whole);
  SolveByHalves(halves.from, blas, depth + 1);
  halves.square.alpha = T(-1);
  halves.square.beta = whole.alpha;
  blas.Multiply(halves.square);
  halves.to.alpha = T(1);
  SolveByHalves(halves.to, blas, depth + 1);
}

}  // namespace gemmd::blas
