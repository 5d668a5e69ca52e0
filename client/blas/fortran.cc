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

}  // namespace

#define GEMMD_BLAS_GEMM(prefix, suffix, Int, t, T)                                                 \
  GEMMD_BLAS_EXPORT void prefix##t##gemm_##suffix(                                                 \
      const char* op_a, const char* op_b, const Int* m, const Int* n, const Int* k,                \
      const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta, T* c, \
      const Int* ldc, std::size_t, std::size_t) {                                                  \
    const auto& names = names_##prefix##t##suffix;                                                 \
    const auto here = [&] {                                                                        \
      names.gemm.Get()(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, kOne, kOne);      \
    };                                                                                             \
    if (!GoesOn(Size(*m), Size(*n), Size(*k))) return here();                                      \
    bool is_sound = true;                                                                          \
    Gemm<T> gemm{OpOf(*op_a, is_sound),                                                            \
                 OpOf(*op_b, is_sound),                                                            \
                 *m,                                                                               \
                 *n,                                                                               \
                 *k,                                                                               \
                 *alpha,                                                                           \
                 a,                                                                                \
                 *lda,                                                                             \
                 b,                                                                                \
                 *ldb,                                                                             \
                 *beta,                                                                            \
                 c,                                                                                \
                 *ldc};                                                                            \
    if (!is_sound) gemm.m = 0;                                                                     \
    Enter<T, Int>(#t "gemm", gemm, names, here);                                                   \
  }

#define GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, name, Scalar, hermitian, letters)         \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                         \
      const char* triangle, const char* op, const Int* n, const Int* k, const Scalar* alpha, \
      const T* a, const Int* lda, const Scalar* beta, T* c, const Int* ldc, std::size_t,     \
      std::size_t) {                                                                         \
    const auto& names = names_##prefix##t##suffix;                                           \
    const auto here = [&] {                                                                  \
      names.name.Get()(triangle, op, n, k, alpha, a, lda, beta, c, ldc, kOne, kOne);         \
    };                                                                                       \
    if (!GoesOn(Size(*n), Size(*n), Size(*k))) return here();                                \
    bool is_sound = true;                                                                    \
    Rank<T> rank{hermitian,                                                                  \
                 ChoiceOf<Triangle>(*triangle, "UL", is_sound),                              \
                 ChoiceOf<Op>(*op, letters, is_sound),                                       \
                 *n,                                                                         \
                 *k,                                                                         \
                 T(*alpha),                                                                  \
                 a,                                                                          \
                 *lda,                                                                       \
                 T(*beta),                                                                   \
                 c,                                                                          \
                 *ldc};                                                                      \
    if (!is_sound) rank.n = 0;                                                               \
    Enter<T, Int>(#t #name, rank, names, here);                                              \
  }

#define GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, name, Scalar, hermitian, letters)        \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                         \
      const char* triangle, const char* op, const Int* n, const Int* k, const T* alpha,      \
      const T* a, const Int* lda, const T* b, const Int* ldb, const Scalar* beta, T* c,      \
      const Int* ldc, std::size_t, std::size_t) {                                            \
    const auto& names = names_##prefix##t##suffix;                                           \
    const auto here = [&] {                                                                  \
      names.name.Get()(triangle, op, n, k, alpha, a, lda, b, ldb, beta, c, ldc, kOne, kOne); \
    };                                                                                       \
    if (!GoesOn(Size(*n), Size(*n), Size(*k))) return here();                                \
    bool is_sound = true;                                                                    \
    Rank2<T> rank{hermitian,                                                                 \
                  ChoiceOf<Triangle>(*triangle, "UL", is_sound),                             \
                  ChoiceOf<Op>(*op, letters, is_sound),                                      \
                  *n,                                                                        \
                  *k,                                                                        \
                  *alpha,                                                                    \
                  a,                                                                         \
                  *lda,                                                                      \
                  b,                                                                         \
                  *ldb,                                                                      \
                  T(*beta),                                                                  \
                  c,                                                                         \
                  *ldc};                                                                     \
    if (!is_sound) rank.n = 0;                                                               \
    Enter<T, Int>(#t #name, rank, names, here);                                              \
  }

#define GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, name, hermitian)                           \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                               \
      const char* side, const char* triangle, const Int* m, const Int* n, const T* alpha,          \
      const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta, T* c, const Int* ldc, \
      std::size_t, std::size_t) {                                                                  \
    const auto& names = names_##prefix##t##suffix;                                                 \
    const auto here = [&] {                                                                        \
      names.name.Get()(side, triangle, m, n, alpha, a, lda, b, ldb, beta, c, ldc, kOne, kOne);     \
    };                                                                                             \
    const bool is_left = Letter(*side, "L") != 0;                                                  \
    if (!GoesOn(Size(*m), Size(*n), Size(is_left ? *m : *n))) return here();                       \
    bool is_sound = true;                                                                          \
    Symmetric<T> symmetric{hermitian,                                                              \
                           ChoiceOf<Side>(*side, "LR", is_sound),                                  \
                           ChoiceOf<Triangle>(*triangle, "UL", is_sound),                          \
                           *m,                                                                     \
                           *n,                                                                     \
                           *alpha,                                                                 \
                           a,                                                                      \
                           *lda,                                                                   \
                           b,                                                                      \
                           *ldb,                                                                   \
                           *beta,                                                                  \
                           c,                                                                      \
                           *ldc};                                                                  \
    if (!is_sound) symmetric.m = 0;                                                                \
    Enter<T, Int>(#t #name, symmetric, names, here);                                               \
  }

#define GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, name, solves)                             \
  GEMMD_BLAS_EXPORT void prefix##t##name##_##suffix(                                               \
      const char* side, const char* triangle, const char* op, const char* diagonal, const Int* m,  \
      const Int* n, const T* alpha, const T* a, const Int* lda, T* b, const Int* ldb, std::size_t, \
      std::size_t, std::size_t, std::size_t) {                                                     \
    const auto& names = names_##prefix##t##suffix;                                                 \
    const auto here = [&] {                                                                        \
      names.name.Get()(side, triangle, op, diagonal, m, n, alpha, a, lda, b, ldb, kOne, kOne,      \
                       kOne, kOne);                                                                \
    };                                                                                             \
    const bool is_left = Letter(*side, "L") != 0;                                                  \
    if (!GoesOn(Size(*m), Size(*n), Size(is_left ? *m : *n))) return here();                       \
    bool is_sound = true;                                                                          \
    Triangular<T> triangular{ChoiceOf<Side>(*side, "LR", is_sound),                                \
                             ChoiceOf<Triangle>(*triangle, "UL", is_sound),                        \
                             OpOf(*op, is_sound),                                                  \
                             ChoiceOf<char>(*diagonal, "NU", is_sound),                            \
                             *m,                                                                   \
                             *n,                                                                   \
                             *alpha,                                                               \
                             a,                                                                    \
                             *lda,                                                                 \
                             b,                                                                    \
                             *ldb};                                                                \
    if (!is_sound) triangular.m = 0;                                                               \
    Enter<T, Int>(#t #name, triangular, solves, names, here);                                      \
  }

// Reference BLAS takes 'C' for 'T' of real matrices, and refuses it of complex symmetric ones.
#define GEMMD_BLAS_ALL(prefix, suffix, Int, t, T)                                              \
  GEMMD_BLAS_GEMM(prefix, suffix, Int, t, T)                                                   \
  GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, syrk, T, false, (kIsComplex<T> ? "NT" : "NTC"))   \
  GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, syr2k, T, false, (kIsComplex<T> ? "NT" : "NTC")) \
  GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, symm, false)                                 \
  GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, trmm, false)                                \
  GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, trsm, true)
#define GEMMD_BLAS_HERMITIAN(prefix, suffix, Int, t, T)                   \
  GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, herk, Real<T>, true, "NC")   \
  GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, her2k, Real<T>, true, "NC") \
  GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, hemm, true)

#define GEMMD_BLAS_FAMILY(prefix, suffix, Int)          \
  GEMMD_BLAS_TYPES(GEMMD_BLAS_ALL, prefix, suffix, Int) \
  GEMMD_BLAS_COMPLEX_TYPES(GEMMD_BLAS_HERMITIAN, prefix, suffix, Int)
GEMMD_BLAS_FAMILIES(GEMMD_BLAS_FAMILY)

}  // namespace gemmd::blas
