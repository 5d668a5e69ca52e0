// Products as BLAS has them: columns are contiguous.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>

namespace gemmd::blas {

enum class Op : char { kNone = 'N', kTranspose = 'T', kConjugate = 'C' };  // the last is transposed

// C := alpha op(A) op(B) + beta C, where op(A) is M x K and op(B) K x N.
template <typename T>
struct Gemm {
  using Element = T;

  Op op_a = Op::kNone;
  Op op_b = Op::kNone;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  T alpha = T(1);
  const T* a = nullptr;
  std::int64_t lda = 0;
  const T* b = nullptr;
  std::int64_t ldb = 0;
  T beta = T(0);
  T* c = nullptr;
  std::int64_t ldc = 0;
};

// Products of one shape: the matrices of product i lie i strides behind those of the first.
template <typename T>
struct GemmBatch {
  using Element = T;

  Gemm<T> first;
  std::int64_t count = 1;
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;

  Gemm<T> At(std::int64_t index) const {
    Gemm<T> one = first;
    one.a += index * a_stride;
    one.b += index * b_stride;
    one.c += index * c_stride;
    return one;
  }
};

// Returns whether rows fit a leading dimension.
inline bool Fits(std::int64_t rows, std::int64_t leading_dimension) {
  return leading_dimension >= std::max<std::int64_t>(1, rows);
}

// Returns whether it is a product: it has elements, reads A and B, and its arguments are sound. The
// BLAS of this machine knows what to do with all others, xerbla included.
template <typename T>
bool IsProduct(const Gemm<T>& gemm) {
  const bool a_is_plain = gemm.op_a == Op::kNone;
  const bool b_is_plain = gemm.op_b == Op::kNone;
  return gemm.m > 0 && gemm.n > 0 && gemm.k > 0 && gemm.alpha != T(0) &&
         Fits(a_is_plain ? gemm.m : gemm.k, gemm.lda) &&
         Fits(b_is_plain ? gemm.k : gemm.n, gemm.ldb) && Fits(gemm.m, gemm.ldc);
}

// The server takes no more at once, and results that overlap depend on the order of the products.
template <typename T>
bool IsProduct(const GemmBatch<T>& batch) {
  constexpr std::int64_t kMostProducts = 1 << 24;
  const Gemm<T>& first = batch.first;
  return IsProduct(first) && batch.count > 0 && batch.count <= kMostProducts &&
         batch.a_stride >= 0 && batch.b_stride >= 0 &&
         (batch.count == 1 || batch.c_stride >= first.ldc * (first.n - 1) + first.m);
}

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename Real>
inline constexpr bool kIsComplex<std::complex<Real>> = true;

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename Real>
struct RealOf<std::complex<Real>> {
  using Type = Real;
};
template <typename T>
using Real = typename RealOf<T>::Type;

template <typename T>
T Conjugate(T value) {
  if constexpr (kIsComplex<T>) {
    return {value.real(), -value.imag()};
  } else {
    return value;
  }
}

// Multiplies as reference BLAS does: std::complex would make infinities of NaNs.
template <typename T>
T Times(T a, T b) {
  if constexpr (kIsComplex<T>) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

// The product's operations on real numbers, 2 M N K of a real one.
template <typename T>
double Flops(double m, double n, double k) {
  return (kIsComplex<T> ? 8 : 2) * m * n * k;
}

template <typename T>
double FlopsOf(const Gemm<T>& gemm) {
  return Flops<T>(static_cast<double>(gemm.m), static_cast<double>(gemm.n),
                  static_cast<double>(gemm.k));
}
template <typename T>
double FlopsOf(const GemmBatch<T>& batch) {
  return static_cast<double>(batch.count) * FlopsOf(batch.first);
}

}  // namespace gemmd::blas
