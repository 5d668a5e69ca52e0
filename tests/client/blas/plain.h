// The routines as their definitions say them, element by element.
#pragma once

#include <cstdint>
#include <vector>

#include "client/blas/gemm.h"
#include "client/blas/level3.h"

namespace gemmd::blas {

template <typename T>
T ElementOf(const T* x, std::int64_t ld, Op op, std::int64_t row, std::int64_t column) {
  if (op == Op::kNone) return x[row + column * ld];
  const T value = x[column + row * ld];
  return op == Op::kConjugate ? Conjugate(value) : value;
}

// C := sum + beta C; with beta 0, C is not read.
template <typename T>
void Store(T sum, T beta, T& c) {
  c = beta == T(0) ? sum : sum + Times(beta, c);
}

template <typename T>
void Plainly(const Gemm<T>& gemm) {
  for (std::int64_t n = 0; n < gemm.n; ++n) {
    for (std::int64_t m = 0; m < gemm.m; ++m) {
      T sum(0);
      for (std::int64_t k = 0; k < gemm.k; ++k) {
        sum += Times(ElementOf(gemm.a, gemm.lda, gemm.op_a, m, k),
                     ElementOf(gemm.b, gemm.ldb, gemm.op_b, k, n));
      }
      Store(Times(gemm.alpha, sum), gemm.beta, gemm.c[m + n * gemm.ldc]);
    }
  }
}

inline bool IsIn(Triangle triangle, std::int64_t row, std::int64_t column) {
  return triangle == Triangle::kUpper ? row <= column : row >= column;
}

template <typename T>
T Primed(T value, bool is_hermitian) {
  return is_hermitian ? Conjugate(value) : value;
}

template <typename T>
void Plainly(const Rank<T>& rank) {
  for (std::int64_t j = 0; j < rank.n; ++j) {
    for (std::int64_t i = 0; i < rank.n; ++i) {
      if (!IsIn(rank.triangle, i, j)) continue;
      T sum(0);
      for (std::int64_t k = 0; k < rank.k; ++k) {
        sum += Times(ElementOf(rank.a, rank.lda, rank.op, i, k),
                     Primed(ElementOf(rank.a, rank.lda, rank.op, j, k), rank.is_hermitian));
      }
      Store(Times(rank.alpha, sum), rank.beta, rank.c[i + j * rank.ldc]);
    }
  }
}

template <typename T>
void Plainly(const Rank2<T>& rank) {
  for (std::int64_t j = 0; j < rank.n; ++j) {
    for (std::int64_t i = 0; i < rank.n; ++i) {
      if (!IsIn(rank.triangle, i, j)) continue;
      T sum(0);
      for (std::int64_t k = 0; k < rank.k; ++k) {
        const bool primes = rank.is_hermitian;
        const T ai = ElementOf(rank.a, rank.lda, rank.op, i, k);
        const T aj = ElementOf(rank.a, rank.lda, rank.op, j, k);
        const T bi = ElementOf(rank.b, rank.ldb, rank.op, i, k);
        const T bj = ElementOf(rank.b, rank.ldb, rank.op, j, k);
        sum += Times(rank.alpha, Times(ai, Primed(bj, primes))) +
               Times(Primed(rank.alpha, primes), Times(bi, Primed(aj, primes)));
      }
      Store(sum, rank.beta, rank.c[i + j * rank.ldc]);
    }
  }
}

template <typename T>
void Plainly(const Symmetric<T>& symmetric) {
  const bool is_left = symmetric.side == Side::kLeft;
  const auto a = [&](std::int64_t i, std::int64_t j) {
    if (IsIn(symmetric.triangle, i, j)) return symmetric.a[i + j * symmetric.lda];
    return Primed(symmetric.a[j + i * symmetric.lda], symmetric.is_hermitian);
  };
  for (std::int64_t n = 0; n < symmetric.n; ++n) {
    for (std::int64_t m = 0; m < symmetric.m; ++m) {
      T sum(0);
      for (std::int64_t i = 0; i < Order(symmetric); ++i) {
        sum += is_left ? Times(a(m, i), symmetric.b[i + n * symmetric.ldb])
                       : Times(symmetric.b[m + i * symmetric.ldb], a(i, n));
      }
      Store(Times(symmetric.alpha, sum), symmetric.beta, symmetric.c[m + n * symmetric.ldc]);
    }
  }
}

// op(A) of a triangular matrix, with zeros and, where it says so, ones.
template <typename T>
T TriangularElement(const Triangular<T>& whole, std::int64_t row, std::int64_t column) {
  if (row == column && whole.diagonal == 'U') return T(1);
  const bool transposes = whole.op != Op::kNone;
  if (!IsIn(whole.triangle, transposes ? column : row, transposes ? row : column)) return T(0);
  return ElementOf(whole.a, whole.lda, whole.op, row, column);
}

// B := alpha op(A) B or alpha B op(A).
template <typename T>
void MultiplyPlainly(const Triangular<T>& whole) {
  const bool is_left = whole.side == Side::kLeft;
  std::vector<T> result;
  for (std::int64_t n = 0; n < whole.n; ++n) {
    for (std::int64_t m = 0; m < whole.m; ++m) {
      T sum(0);
      for (std::int64_t i = 0; i < Order(whole); ++i) {
        sum += is_left ? Times(TriangularElement(whole, m, i), whole.b[i + n * whole.ldb])
                       : Times(whole.b[m + i * whole.ldb], TriangularElement(whole, i, n));
      }
      result.push_back(Times(whole.alpha, sum));
    }
  }
  for (std::int64_t i = 0; i < whole.n * whole.m; ++i) {
    whole.b[i % whole.m + i / whole.m * whole.ldb] = result[static_cast<std::size_t>(i)];
  }
}

// B := alpha X, where op(A) X = B or X op(A) = B, by substitution. Divides by A's diagonal.
template <typename T>
void SolvePlainly(const Triangular<T>& whole) {
  const bool is_left = whole.side == Side::kLeft;
  const std::int64_t order = Order(whole);
  const std::int64_t others = is_left ? whole.n : whole.m;
  const bool is_low = (whole.triangle == Triangle::kLower) == (whole.op == Op::kNone);
  const auto b = [&](std::int64_t i, std::int64_t other) -> T& {
    return is_left ? whole.b[i + other * whole.ldb] : whole.b[other + i * whole.ldb];
  };
  for (std::int64_t other = 0; other < others; ++other) {
    for (std::int64_t step = 0; step < order; ++step) {
      // On the left a low triangle is solved from its first row on.
      const std::int64_t i = is_low == is_left ? step : order - 1 - step;
      T value = Times(whole.alpha, b(i, other));
      for (std::int64_t before = 0; before < step; ++before) {
        const std::int64_t j = is_low == is_left ? before : order - 1 - before;
        const T a = is_left ? TriangularElement(whole, i, j) : TriangularElement(whole, j, i);
        value -= Times(a, b(j, other));
      }
      b(i, other) = value / TriangularElement(whole, i, i);
    }
  }
}

}  // namespace gemmd::blas
