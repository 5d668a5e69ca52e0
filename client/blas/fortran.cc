// The functions of BLAS that programs in Fortran call, and LAPACK, and SciPy.
//
// Each passes a small call on at once. Letters that are none make a call without elements, which
// goes on to the BLAS of this machine as it came: that one knows its xerbla and its extensions.
#include "client/blas/fortran.h"

#include <complex>

#include "client/blas/entry.h"

namespace gemmd::blas {
namespace {

Op OpOf(char letter, bool& is_sound) {
  const char op = Letter(letter, "NTC");
  is_sound = is_sound && op != 0;
  return static_cast<Op>(op);
}

template <typename Enum>
Enum ChoiceOf(char letter, const char* letters, bool& is_sound) {
  const char chosen = Letter(letter, letters);
  is_sound = is_sound && chosen != 0;
  return static_cast<Enum>(chosen);
}

template <typename T, typename Int>
using NamesOf = typename Fortran<T, Int>::Names;

template <typename T, typename Int>
void CallGemm(const char* routine, const NamesOf<T, Int>& names, const char* op_a, const char* op_b,
              const Int* m, const Int* n, const Int* k, const T* alpha, const T* a, const Int* lda,
              const T* b, const Int* ldb, const T* beta, T* c, const Int* ldc) {
  const auto here = [&] {
    names.gemm.Get()(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, kOne, kOne);
  };
  if (!GoesOn(Size(*m), Size(*n), Size(*k))) return here();
  bool is_sound = true;
  Gemm<T> gemm{OpOf(*op_a, is_sound),
               OpOf(*op_b, is_sound),
               *m,
               *n,
               *k,
               *alpha,
               a,
               *lda,
               b,
               *ldb,
               *beta,
               c,
               *ldc};
  if (!is_sound) gemm.m = 0;
  Enter<T, Int>(routine, gemm, names, here);
}

// Reference BLAS takes 'C' for 'T' of real matrices, and refuses it of complex symmetric ones.
template <typename T>
const char* RankLetters(bool is_hermitian) {
  if (!kIsComplex<T>) return "NTC";
  return is_hermitian ? "NC" : "NT";
}

template <typename T, typename Int, typename Function, typename Scalar>
void CallRank(const char* routine, const NamesOf<T, Int>& names, const Here<Function>& function,
              bool is_hermitian, const char* triangle, const char* op, const Int* n, const Int* k,
              const Scalar* alpha, const T* a, const Int* lda, const Scalar* beta, T* c,
              const Int* ldc) {
  const auto here = [&] {
    function.Get()(triangle, op, n, k, alpha, a, lda, beta, c, ldc, kOne, kOne);
  };
  if (!GoesOn(Size(*n), Size(*n), Size(*k))) return here();
  bool is_sound = true;
  Rank<T> rank{is_hermitian,
               ChoiceOf<Triangle>(*triangle, "UL", is_sound),
               ChoiceOf<Op>(*op, RankLetters<T>(is_hermitian), is_sound),
               *n,
               *k,
               T(*alpha),
               a,
               *lda,
               T(*beta),
               c,
               *ldc};
  if (!is_sound) rank.n = 0;
  Enter<T, Int>(routine, rank, names, here);
}

template <typename T, typename Int, typename Function, typename Scalar>
void CallRank2(const char* routine, const NamesOf<T, Int>& names, const Here<Function>& function,
               bool is_hermitian, const char* triangle, const char* op, const Int* n, const Int* k,
               const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb,
               const Scalar* beta, T* c, const Int* ldc) {
  const auto here = [&] {
    function.Get()(triangle, op, n, k, alpha, a, lda, b, ldb, beta, c, ldc, kOne, kOne);
  };
  if (!GoesOn(Size(*n), Size(*n), Size(*k))) return here();
  bool is_sound = true;
  Rank2<T> rank{is_hermitian,
                ChoiceOf<Triangle>(*triangle, "UL", is_sound),
                ChoiceOf<Op>(*op, RankLetters<T>(is_hermitian), is_sound),
                *n,
                *k,
                *alpha,
                a,
                *lda,
                b,
                *ldb,
                T(*beta),
                c,
                *ldc};
  if (!is_sound) rank.n = 0;
  Enter<T, Int>(routine, rank, names, here);
}

template <typename T, typename Int, typename Function>
void CallSymmetric(const char* routine, const NamesOf<T, Int>& names,
                   const Here<Function>& function, bool is_hermitian, const char* side,
                   const char* triangle, const Int* m, const Int* n, const T* alpha, const T* a,
                   const Int* lda, const T* b, const Int* ldb, const T* beta, T* c,
                   const Int* ldc) {
  const auto here = [&] {
    function.Get()(side, triangle, m, n, alpha, a, lda, b, ldb, beta, c, ldc, kOne, kOne);
  };
  const bool is_left = Letter(*side, "L") != 0;
  if (!GoesOn(Size(*m), Size(*n), Size(is_left ? *m : *n))) return here();
  bool is_sound = true;
  Symmetric<T> symmetric{is_hermitian,
                         ChoiceOf<Side>(*side, "LR", is_sound),
                         ChoiceOf<Triangle>(*triangle, "UL", is_sound),
                         *m,
                         *n,
                         *alpha,
                         a,
                         *lda,
                         b,
                         *ldb,
                         *beta,
                         c,
                         *ldc};
  if (!is_sound) symmetric.m = 0;
  Enter<T, Int>(routine, symmetric, names, here);
}

template <typename T, typename Int, typename Function>
void CallTriangular(const char* routine, const NamesOf<T, Int>& names,
                    const Here<Function>& function, bool solves, const char* side,
                    const char* triangle, const char* op, const char* diagonal, const Int* m,
                    const Int* n, const T* alpha, const T* a, const Int* lda, T* b,
                    const Int* ldb) {
  const auto here = [&] {
    function.Get()(side, triangle, op, diagonal, m, n, alpha, a, lda, b, ldb, kOne, kOne, kOne,
                   kOne);
  };
  const bool is_left = Letter(*side, "L") != 0;
  if (!GoesOn(Size(*m), Size(*n), Size(is_left ? *m : *n))) return here();
  bool is_sound = true;
  Triangular<T> triangular{ChoiceOf<Side>(*side, "LR", is_sound),
                           ChoiceOf<Triangle>(*triangle, "UL", is_sound),
                           OpOf(*op, is_sound),
                           ChoiceOf<char>(*diagonal, "NU", is_sound),
                           *m,
                           *n,
                           *alpha,
                           a,
                           *lda,
                           b,
                           *ldb};
  if (!is_sound) triangular.m = 0;
  Enter<T, Int>(routine, triangular, solves, names, here);
}

}  // namespace

// The lengths of strings, which callers in Fortran pass behind these arguments, are not declared.
// Danger: a function may write where its arguments lie, and a compiler does so where it ends with a
// call of the same arguments. Callers in C pass no lengths, and have variables of their own there.
#define GEMMD_BLAS_GEMM(prefix, suffix, Int, t, T)                                                \
  GEMMD_BLAS_EXPORT void prefix##t##gemm_##suffix(                                                \
      const char* op_a, const char* op_b, const Int* m, const Int* n, const Int* k,               \
      const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta,      \
      Out<T> c, const Int* ldc) {                                                                 \
    CallGemm<T, Int>(#t "gemm", names_##prefix##t##suffix, op_a, op_b, m, n, k, alpha, a, lda, b, \
                     ldb, beta, c, ldc);                                                          \
  }

#define GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, name, Scalar, is_hermitian)                     \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                               \
      const char* triangle, const char* op, const Int* n, const Int* k, const Scalar* alpha,       \
      const T* a, const Int* lda, const Scalar* beta, Out<T> c, const Int* ldc) {                  \
    const auto& names = names_##prefix##t##suffix;                                                 \
    CallRank<T, Int>(#t #name, names, names.name, is_hermitian, triangle, op, n, k, alpha, a, lda, \
                     beta, c, ldc);                                                                \
  }

#define GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, name, Scalar, is_hermitian)                \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                           \
      const char* triangle, const char* op, const Int* n, const Int* k, const T* alpha,        \
      const T* a, const Int* lda, const T* b, const Int* ldb, const Scalar* beta, Out<T> c,    \
      const Int* ldc) {                                                                        \
    const auto& names = names_##prefix##t##suffix;                                             \
    CallRank2<T, Int>(#t #name, names, names.name, is_hermitian, triangle, op, n, k, alpha, a, \
                      lda, b, ldb, beta, c, ldc);                                              \
  }

#define GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, name, is_hermitian)                       \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                              \
      const char* side, const char* triangle, const Int* m, const Int* n, const T* alpha,         \
      const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta, Out<T> c,            \
      const Int* ldc) {                                                                           \
    const auto& names = names_##prefix##t##suffix;                                                \
    CallSymmetric<T, Int>(#t #name, names, names.name, is_hermitian, side, triangle, m, n, alpha, \
                          a, lda, b, ldb, beta, c, ldc);                                          \
  }

#define GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, name, solves)                            \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                              \
      const char* side, const char* triangle, const char* op, const char* diagonal, const Int* m, \
      const Int* n, const T* alpha, const T* a, const Int* lda, Out<T> b, const Int* ldb) {       \
    const auto& names = names_##prefix##t##suffix;                                                \
    CallTriangular<T, Int>(#t #name, names, names.name, solves, side, triangle, op, diagonal, m,  \
                           n, alpha, a, lda, b, ldb);                                             \
  }

#define GEMMD_BLAS_ALL(prefix, suffix, Int, t, T)               \
  GEMMD_BLAS_GEMM(prefix, suffix, Int, t, T)                    \
  GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, syrk, T, false)    \
  GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, syr2k, T, false)  \
  GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, symm, false)  \
  GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, trmm, false) \
  GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, trsm, true)
#define GEMMD_BLAS_HERMITIAN(prefix, suffix, Int, t, T)             \
  GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, herk, Real<T>, true)   \
  GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, her2k, Real<T>, true) \
  GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, hemm, true)

#define GEMMD_BLAS_FAMILY(prefix, suffix, Int)          \
  GEMMD_BLAS_TYPES(GEMMD_BLAS_ALL, prefix, suffix, Int) \
  GEMMD_BLAS_COMPLEX_TYPES(GEMMD_BLAS_HERMITIAN, prefix, suffix, Int)
GEMMD_BLAS_FAMILIES(GEMMD_BLAS_FAMILY)

}  // namespace gemmd::blas
