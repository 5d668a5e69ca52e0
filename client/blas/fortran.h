// The interface of BLAS for Fortran: every argument by its address, lengths of strings last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "client/blas/gemm.h"
#include "client/blas/here.h"
#include "client/blas/level3.h"

namespace gemmd::blas {

// gfortran passes the length of each string behind all arguments, and callers in C leave them out
// (the BLAS of this machine may be of either mind). All strings here are one character.
inline constexpr std::size_t kOne = 1;

template <typename T, typename Int>
struct Fortran {
  using GemmFunction = void(const char* op_a, const char* op_b, const Int* m, const Int* n,
                            const Int* k, const T* alpha, const T* a, const Int* lda, const T* b,
                            const Int* ldb, const T* beta, T* c, const Int* ldc, std::size_t,
                            std::size_t);
  template <typename Scalar>
  using RankFunction = void(const char* triangle, const char* op, const Int* n, const Int* k,
                            const Scalar* alpha, const T* a, const Int* lda, const Scalar* beta,
                            T* c, const Int* ldc, std::size_t, std::size_t);
  template <typename Scalar>
  using Rank2Function = void(const char* triangle, const char* op, const Int* n, const Int* k,
                             const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb,
                             const Scalar* beta, T* c, const Int* ldc, std::size_t, std::size_t);
  using SymmetricFunction = void(const char* side, const char* triangle, const Int* m, const Int* n,
                                 const T* alpha, const T* a, const Int* lda, const T* b,
                                 const Int* ldb, const T* beta, T* c, const Int* ldc, std::size_t,
                                 std::size_t);
  using TriangularFunction = void(const char* side, const char* triangle, const char* op,
                                  const char* diagonal, const Int* m, const Int* n, const T* alpha,
                                  const T* a, const Int* lda, T* b, const Int* ldb, std::size_t,
                                  std::size_t, std::size_t, std::size_t);

  // The functions of one kind of elements and one family of names.
  struct Names {
    Here<GemmFunction> gemm;
    Here<RankFunction<T>> syrk;
    Here<RankFunction<Real<T>>> herk;
    Here<Rank2Function<T>> syr2k;
    Here<Rank2Function<Real<T>>> her2k;
    Here<SymmetricFunction> symm;
    Here<SymmetricFunction> hemm;
    Here<TriangularFunction> trmm;
    Here<TriangularFunction> trsm;
  };
};

// Computes here, by the functions of `names`.
template <typename T, typename Int>
class FortranHere {
 public:
  using Names = typename Fortran<T, Int>::Names;

  explicit FortranHere(const Names& names) : names_(names) {}

  void Multiply(const Gemm<T>& gemm) const {
    const char op_a = static_cast<char>(gemm.op_a);
    const char op_b = static_cast<char>(gemm.op_b);
    const Int m = Cast(gemm.m);
    const Int n = Cast(gemm.n);
    const Int k = Cast(gemm.k);
    const Int lda = Cast(gemm.lda);
    const Int ldb = Cast(gemm.ldb);
    const Int ldc = Cast(gemm.ldc);
    names_.gemm.Get()(&op_a, &op_b, &m, &n, &k, &gemm.alpha, gemm.a, &lda, gemm.b, &ldb, &gemm.beta,
                      gemm.c, &ldc, kOne, kOne);
  }

  void Whole(const Rank<T>& rank) const {
    if (rank.is_hermitian) {
      const Real<T> alpha = std::real(rank.alpha);
      const Real<T> beta = std::real(rank.beta);
      return CallRank(rank, names_.herk.Get(), alpha, beta);
    }
    CallRank(rank, names_.syrk.Get(), rank.alpha, rank.beta);
  }

  void Whole(const Rank2<T>& rank) const {
    if (rank.is_hermitian) return CallRank2(rank, names_.her2k.Get(), std::real(rank.beta));
    CallRank2(rank, names_.syr2k.Get(), rank.beta);
  }

  void Whole(const Symmetric<T>& symmetric) const {
    const char side = static_cast<char>(symmetric.side);
    const char triangle = static_cast<char>(symmetric.triangle);
    const Int m = Cast(symmetric.m);
    const Int n = Cast(symmetric.n);
    const Int lda = Cast(symmetric.lda);
    const Int ldb = Cast(symmetric.ldb);
    const Int ldc = Cast(symmetric.ldc);
    const auto& function = symmetric.is_hermitian ? names_.hemm : names_.symm;
    function.Get()(&side, &triangle, &m, &n, &symmetric.alpha, symmetric.a, &lda, symmetric.b, &ldb,
                   &symmetric.beta, symmetric.c, &ldc, kOne, kOne);
  }

  void WholeProduct(const Triangular<T>& triangular) const {
    CallTriangular(triangular, names_.trmm.Get());
  }
  void WholeSolution(const Triangular<T>& triangular) const {
    CallTriangular(triangular, names_.trsm.Get());
  }

 private:
  // Parts are no larger than the whole, which its caller gave as an Int.
  static Int Cast(std::int64_t value) { return static_cast<Int>(value); }

  template <typename Function, typename Scalar>
  static void CallRank(const Rank<T>& rank, Function* function, const Scalar& alpha,
                       const Scalar& beta) {
    const char triangle = static_cast<char>(rank.triangle);
    const char op = static_cast<char>(rank.op);
    const Int n = Cast(rank.n);
    const Int k = Cast(rank.k);
    const Int lda = Cast(rank.lda);
    const Int ldc = Cast(rank.ldc);
    function(&triangle, &op, &n, &k, &alpha, rank.a, &lda, &beta, rank.c, &ldc, kOne, kOne);
  }

  template <typename Function, typename Scalar>
  static void CallRank2(const Rank2<T>& rank, Function* function, const Scalar& beta) {
    const char triangle = static_cast<char>(rank.triangle);
    const char op = static_cast<char>(rank.op);
    const Int n = Cast(rank.n);
    const Int k = Cast(rank.k);
    const Int lda = Cast(rank.lda);
    const Int ldb = Cast(rank.ldb);
    const Int ldc = Cast(rank.ldc);
    function(&triangle, &op, &n, &k, &rank.alpha, rank.a, &lda, rank.b, &ldb, &beta, rank.c, &ldc,
             kOne, kOne);
  }

  template <typename Function>
  static void CallTriangular(const Triangular<T>& triangular, Function* function) {
    const char side = static_cast<char>(triangular.side);
    const char triangle = static_cast<char>(triangular.triangle);
    const char op = static_cast<char>(triangular.op);
    const Int m = Cast(triangular.m);
    const Int n = Cast(triangular.n);
    const Int lda = Cast(triangular.lda);
    const Int ldb = Cast(triangular.ldb);
    function(&side, &triangle, &op, &triangular.diagonal, &m, &n, &triangular.alpha, triangular.a,
             &lda, triangular.b, &ldb, kOne, kOne, kOne, kOne);
  }

  const Names& names_;
};

// A letter of an argument, in either case; 0 where it is none of `letters`.
inline char Letter(char given, const char* letters) {
  const char upper = given >= 'a' && given <= 'z' ? static_cast<char>(given - 'a' + 'A') : given;
  for (; *letters != '\0'; ++letters) {
    if (*letters == upper) return upper;
  }
  return 0;
}

// Calls X(prefix, suffix, Int) for each family of names, of which the Fortran ones are
// PREFIXdgemm_SUFFIX and the C ones PREFIXcblas_dgemmSUFFIX: those of BLAS, those of BLAS with
// integers of 64 bits, and both as the wheels of NumPy and SciPy call them.
#define GEMMD_BLAS_FAMILIES(X) \
  X(, , std::int32_t)          \
  X(, 64_, std::int64_t)       \
  X(scipy_, , std::int32_t)    \
  X(scipy_, 64_, std::int64_t)

// Calls X(prefix, suffix, Int, t, T) for each kind of elements.
#define GEMMD_BLAS_REAL_TYPES(X, prefix, suffix, Int) \
  X(prefix, suffix, Int, s, float)                    \
  X(prefix, suffix, Int, d, double)
#define GEMMD_BLAS_COMPLEX_TYPES(X, prefix, suffix, Int) \
  X(prefix, suffix, Int, c, std::complex<float>)         \
  X(prefix, suffix, Int, z, std::complex<double>)
#define GEMMD_BLAS_TYPES(X, prefix, suffix, Int) \
  GEMMD_BLAS_REAL_TYPES(X, prefix, suffix, Int)  \
  GEMMD_BLAS_COMPLEX_TYPES(X, prefix, suffix, Int)

// names_scipy_d64_, for example.
#define GEMMD_BLAS_NAMES(prefix, suffix, Int, t, T)                                         \
  inline const Fortran<T, Int>::Names names_##prefix##t##suffix = {                         \
      #prefix #t "gemm_" #suffix,  #prefix #t "syrk_" #suffix,  #prefix #t "herk_" #suffix, \
      #prefix #t "syr2k_" #suffix, #prefix #t "her2k_" #suffix, #prefix #t "symm_" #suffix, \
      #prefix #t "hemm_" #suffix,  #prefix #t "trmm_" #suffix,  #prefix #t "trsm_" #suffix};
#define GEMMD_BLAS_FAMILY(prefix, suffix, Int) \
  GEMMD_BLAS_TYPES(GEMMD_BLAS_NAMES, prefix, suffix, Int)
GEMMD_BLAS_FAMILIES(GEMMD_BLAS_FAMILY)
#undef GEMMD_BLAS_FAMILY
#undef GEMMD_BLAS_NAMES

// An argument that is written.
template <typename T>
using Out = T*;

#define GEMMD_BLAS_EXPORT extern "C" __attribute__((visibility("default")))

}  // namespace gemmd::blas
