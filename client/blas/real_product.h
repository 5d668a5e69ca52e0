// Products as the server gets them: D = op(A) op(B) of real numbers, whose rows are contiguous.
//
// The transpose of a matrix whose columns are contiguous is one whose rows are, so C transposed =
// op(B) transposed * op(A) transposed goes as it lies. A complex product is one real product of
// twice the length, which counts as four: a row of B goes as it lies, as pairs of a real and an
// imaginary part, and each element x + iy of A as the square (x, y; -y, x). D is then pairs too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "client/blas/gemm.h"

namespace gemmd::blas {

struct RealProduct {
  bool is_double = false;
  bool transpose_a = false;  // A is K x M
  bool transpose_b = false;  // B is N x K
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const void* a = nullptr;
  std::int64_t a_stride = 0;  // elements from a row to the next
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  // The products of a batch, and the elements from one's operand to the next one's.
  std::int64_t count = 1;
  std::int64_t a_batch_stride = 0;
  std::int64_t b_batch_stride = 0;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

// A product with the memory that was made for it.
struct Prepared {
  RealProduct product;
  Memory a;
  Memory b;
  bool is_short_of_memory = false;
};

// Puts op(B) transposed into N rows of K.
template <typename T>
void PackB(const Gemm<T>& gemm, T* to) {
  for (std::int64_t n = 0; n < gemm.n; ++n) {
    for (std::int64_t k = 0; k < gemm.k; ++k) {
      const T value = gemm.b[n + k * gemm.ldb];
      to[n * gemm.k + k] = gemm.op_b == Op::kConjugate ? Conjugate(value) : value;
    }
  }
}

// Puts op(A) transposed into K pairs of rows of M pairs.
template <typename T>
void ExpandA(const Gemm<T>& gemm, Real<T>* to) {
  for (std::int64_t k = 0; k < gemm.k; ++k) {
    Real<T>* const upper = to + 4 * k * gemm.m;
    Real<T>* const lower = upper + 2 * gemm.m;
    for (std::int64_t m = 0; m < gemm.m; ++m) {
      const bool is_plain = gemm.op_a == Op::kNone;
      T value = is_plain ? gemm.a[m + k * gemm.lda] : gemm.a[k + m * gemm.lda];
      if (gemm.op_a == Op::kConjugate) value = Conjugate(value);
      upper[2 * m] = value.real();
      upper[2 * m + 1] = value.imag();
      lower[2 * m] = -value.imag();
      lower[2 * m + 1] = value.real();
    }
  }
}

// The product without the memory that a complex one needs.
template <typename T>
RealProduct Described(const Gemm<T>& gemm) {
  constexpr std::int64_t kParts = kIsComplex<T> ? 2 : 1;
  RealProduct product;
  product.is_double = sizeof(Real<T>) == sizeof(double);
  product.m = gemm.n;
  product.n = kParts * gemm.m;
  product.k = kParts * gemm.k;
  product.a = gemm.b;
  product.a_stride = kParts * gemm.ldb;
  if constexpr (!kIsComplex<T>) {
    product.transpose_a = gemm.op_b != Op::kNone;
    product.transpose_b = gemm.op_a != Op::kNone;
    product.b = gemm.a;
    product.b_stride = gemm.lda;
  } else {
    product.b_stride = product.n;
    if (gemm.op_b != Op::kNone) product.a_stride = product.k;
  }
  return product;
}

template <typename T>
RealProduct Described(const GemmBatch<T>& batch) {
  static_assert(!kIsComplex<T>);
  RealProduct product = Described(batch.first);
  product.count = batch.count;
  product.a_batch_stride = batch.b_stride;
  product.b_batch_stride = batch.a_stride;
  return product;
}

inline Memory Allocate(std::int64_t rows, std::int64_t columns, std::size_t element_bytes) {
  return Memory(std::malloc(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns) *
                            element_bytes));
}

template <typename T>
Prepared Prepare(const Gemm<T>& gemm) {
  Prepared prepared;
  RealProduct& product = prepared.product;
  product = Described(gemm);
  if constexpr (kIsComplex<T>) {
    prepared.b = Allocate(2 * gemm.k, gemm.m, sizeof(T));
    const bool packs = gemm.op_b != Op::kNone;
    if (packs) prepared.a = Allocate(gemm.n, gemm.k, sizeof(T));
    prepared.is_short_of_memory = prepared.b == nullptr || (packs && prepared.a == nullptr);
    if (prepared.is_short_of_memory) return prepared;
    product.b = prepared.b.get();
    ExpandA(gemm, static_cast<Real<T>*>(prepared.b.get()));
    if (packs) {
      PackB(gemm, static_cast<T*>(prepared.a.get()));
      product.a = prepared.a.get();
    }
  }
  return prepared;
}

template <typename T>
Prepared Prepare(const GemmBatch<T>& batch) {
  Prepared prepared;
  prepared.product = Described(batch);
  return prepared;
}

// C := alpha D + beta C, where D is N rows of M. With beta 0 it reads nothing of C. A factor of 1
// multiplies nothing: with an infinite part of a complex number that would make a NaN.
template <typename T>
void Merge(const T* d, const Gemm<T>& gemm) {
  const bool scales_d = gemm.alpha != T(1);
  const bool scales_c = gemm.beta != T(1);
  for (std::int64_t n = 0; n < gemm.n; ++n) {
    const T* const from = d + n * gemm.m;
    T* const to = gemm.c + n * gemm.ldc;
    if (gemm.beta == T(0)) {
      for (std::int64_t m = 0; m < gemm.m; ++m) {
        to[m] = scales_d ? Times(gemm.alpha, from[m]) : from[m];
      }
    } else {
      for (std::int64_t m = 0; m < gemm.m; ++m) {
        const T before = scales_c ? Times(gemm.beta, to[m]) : to[m];
        to[m] = before + (scales_d ? Times(gemm.alpha, from[m]) : from[m]);
      }
    }
  }
}

template <typename T>
void Merge(const T* d, const GemmBatch<T>& batch) {
  for (std::int64_t i = 0; i < batch.count; ++i) {
    Merge(d + i * batch.first.m * batch.first.n, batch.At(i));
  }
}

}  // namespace gemmd::blas
