// The functions of BLAS that programs in C call, and NumPy.
//
// A matrix whose rows are contiguous is the transpose of one whose columns are: such calls become
// those of Fortran's order by exchanging operands, sides or triangles.
#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "client/blas/entry.h"
#include "client/blas/fortran.h"

namespace gemmd::blas {
namespace {

// The numbers of CBLAS's enumerations.
enum Word : int {
  kRowMajor = 101,
  kColumnMajor = 102,
  kNoTranspose = 111,
  kTranspose = 112,
  kConjugateTranspose = 113,
  kUpper = 121,
  kLower = 122,
  kNonUnit = 131,
  kUnit = 132,
  kLeft = 141,
  kRight = 142
};

// Real numbers come by value, complex ones by address.
template <typename T>
using Passed = std::conditional_t<kIsComplex<T>, const T*, T>;

template <typename T>
T ValueOf(const T& value) {
  return value;
}
template <typename T>
T ValueOf(const T* value) {
  return *value;
}

// The types of the functions, each by its routine's name.
template <typename T, typename Int>
struct Cblas {
  using P = Passed<T>;
  template <typename Scalar>
  using Rank = void(int layout, int triangle, int op, Int n, Int k, Scalar alpha, const T* a,
                    Int lda, Scalar beta, T* c, Int ldc);
  template <typename Scalar>
  using Rank2 = void(int layout, int triangle, int op, Int n, Int k, P alpha, const T* a, Int lda,
                     const T* b, Int ldb, Scalar beta, T* c, Int ldc);

  using gemm = void(int layout, int op_a, int op_b, Int m, Int n, Int k, P alpha, const T* a,
                    Int lda, const T* b, Int ldb, P beta, T* c, Int ldc);
  using syrk = Rank<P>;
  using herk = Rank<Real<T>>;
  using syr2k = Rank2<P>;
  using her2k = Rank2<Real<T>>;
  using symm = void(int layout, int side, int triangle, Int m, Int n, P alpha, const T* a, Int lda,
                    const T* b, Int ldb, P beta, T* c, Int ldc);
  using hemm = symm;
  using trmm = void(int layout, int side, int triangle, int op, int diagonal, Int m, Int n, P alpha,
                    const T* a, Int lda, T* b, Int ldb);
  using trsm = trmm;
};

// The words of a call in Fortran's order. A number that is no word makes it unsound.
class Words {
 public:
  explicit Words(int layout)
      : is_row_major_(layout == kRowMajor),
        is_sound_(layout == kRowMajor || layout == kColumnMajor) {}

  bool is_row_major() const { return is_row_major_; }
  bool is_sound() const { return is_sound_; }

  Op OpOf(int word) {
    Check(word >= kNoTranspose && word <= kConjugateTranspose);
    return word == kNoTranspose ? Op::kNone : word == kTranspose ? Op::kTranspose : Op::kConjugate;
  }
  // The operation of a rank-k update, whose transpose has the other one.
  Op RankOpOf(int word, bool is_hermitian, bool is_complex) {
    const Op op = OpOf(word);
    // Real matrices take both words for a transpose, complex ones only their own.
    const Op transposed = is_complex ? Transposed(is_hermitian) : op;
    Check(op == Op::kNone || op == transposed);
    if (!is_row_major_) return op;
    return op == Op::kNone ? Transposed(is_hermitian) : Op::kNone;
  }
  Triangle TriangleOf(int word) {
    Check(word == kUpper || word == kLower);
    const Triangle triangle = word == kUpper ? Triangle::kUpper : Triangle::kLower;
    return is_row_major_ ? Other(triangle) : triangle;
  }
  Side SideOf(int word) {
    Check(word == kLeft || word == kRight);
    const Side side = word == kLeft ? Side::kLeft : Side::kRight;
    return is_row_major_ ? Other(side) : side;
  }
  char DiagonalOf(int word) {
    Check(word == kNonUnit || word == kUnit);
    return word == kUnit ? 'U' : 'N';
  }

 private:
  void Check(bool is_sound) { is_sound_ = is_sound_ && is_sound; }

  const bool is_row_major_;
  bool is_sound_;
};

template <typename T, typename Int>
using NamesOf = typename Fortran<T, Int>::Names;

template <typename T, typename Int, typename Function>
void CallGemm(const char* routine, const NamesOf<T, Int>& names, const Here<Function>& function,
              int layout, int op_a, int op_b, Int m, Int n, Int k, Passed<T> alpha, const T* a,
              Int lda, const T* b, Int ldb, Passed<T> beta, T* c, Int ldc) {
  const auto here = [&] {
    function.Get()(layout, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  };
  if (!GoesOn(Size(m), Size(n), Size(k))) return here();
  Words words(layout);
  Gemm<T> gemm{words.OpOf(op_a),
               words.OpOf(op_b),
               m,
               n,
               k,
               ValueOf<T>(alpha),
               a,
               lda,
               b,
               ldb,
               ValueOf<T>(beta),
               c,
               ldc};
  if (words.is_row_major()) {
    std::swap(gemm.op_a, gemm.op_b);
    std::swap(gemm.m, gemm.n);
    std::swap(gemm.a, gemm.b);
    std::swap(gemm.lda, gemm.ldb);
  }
  if (!words.is_sound()) gemm.m = 0;
  Enter<T, Int>(routine, gemm, names, here);
}

// `Number` is what the scalars are: T, or its real type for xHERK.
template <typename T, typename Int, typename Number, typename Function, typename Scalar>
void CallRank(const char* routine, const NamesOf<T, Int>& names, const Here<Function>& function,
              bool is_hermitian, int layout, int triangle, int op, Int n, Int k, Scalar alpha,
              const T* a, Int lda, Scalar beta, T* c, Int ldc) {
  const auto here = [&] {
    function.Get()(layout, triangle, op, n, k, alpha, a, lda, beta, c, ldc);
  };
  if (!GoesOn(Size(n), Size(n), Size(k))) return here();
  Words words(layout);
  Rank<T> rank{is_hermitian,
               words.TriangleOf(triangle),
               words.RankOpOf(op, is_hermitian, kIsComplex<T>),
               n,
               k,
               T(ValueOf<Number>(alpha)),
               a,
               lda,
               T(ValueOf<Number>(beta)),
               c,
               ldc};
  if (!words.is_sound()) rank.n = 0;
  Enter<T, Int>(routine, rank, names, here);
}

template <typename T, typename Int, typename Number, typename Function, typename Scalar>
void CallRank2(const char* routine, const NamesOf<T, Int>& names, const Here<Function>& function,
               bool is_hermitian, int layout, int triangle, int op, Int n, Int k, Passed<T> alpha,
               const T* a, Int lda, const T* b, Int ldb, Scalar beta, T* c, Int ldc) {
  const auto here = [&] {
    function.Get()(layout, triangle, op, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  };
  if (!GoesOn(Size(n), Size(n), Size(k))) return here();
  Words words(layout);
  Rank2<T> rank{is_hermitian,
                words.TriangleOf(triangle),
                words.RankOpOf(op, is_hermitian, kIsComplex<T>),
                n,
                k,
                ValueOf<T>(alpha),
                a,
                lda,
                b,
                ldb,
                T(ValueOf<Number>(beta)),
                c,
                ldc};
  if (is_hermitian && words.is_row_major()) rank.alpha = Conjugate(rank.alpha);
  if (!words.is_sound()) rank.n = 0;
  Enter<T, Int>(routine, rank, names, here);
}

template <typename T, typename Int, typename Function>
void CallSymmetric(const char* routine, const NamesOf<T, Int>& names,
                   const Here<Function>& function, bool is_hermitian, int layout, int side,
                   int triangle, Int m, Int n, Passed<T> alpha, const T* a, Int lda, const T* b,
                   Int ldb, Passed<T> beta, T* c, Int ldc) {
  const auto here = [&] {
    function.Get()(layout, side, triangle, m, n, alpha, a, lda, b, ldb, beta, c, ldc);
  };
  if (!GoesOn(Size(m), Size(n), Size(side == kLeft ? m : n))) return here();
  Words words(layout);
  Symmetric<T> symmetric{is_hermitian,
                         words.SideOf(side),
                         words.TriangleOf(triangle),
                         m,
                         n,
                         ValueOf<T>(alpha),
                         a,
                         lda,
                         b,
                         ldb,
                         ValueOf<T>(beta),
                         c,
                         ldc};
  if (words.is_row_major()) std::swap(symmetric.m, symmetric.n);
  if (!words.is_sound()) symmetric.m = 0;
  Enter<T, Int>(routine, symmetric, names, here);
}

template <typename T, typename Int, typename Function>
void CallTriangular(const char* routine, const NamesOf<T, Int>& names,
                    const Here<Function>& function, bool solves, int layout, int side, int triangle,
                    int op, int diagonal, Int m, Int n, Passed<T> alpha, const T* a, Int lda, T* b,
                    Int ldb) {
  const auto here = [&] {
    function.Get()(layout, side, triangle, op, diagonal, m, n, alpha, a, lda, b, ldb);
  };
  if (!GoesOn(Size(m), Size(n), Size(side == kLeft ? m : n))) return here();
  Words words(layout);
  Triangular<T> triangular{words.SideOf(side),
                           words.TriangleOf(triangle),
                           words.OpOf(op),
                           words.DiagonalOf(diagonal),
                           m,
                           n,
                           ValueOf<T>(alpha),
                           a,
                           lda,
                           b,
                           ldb};
  if (words.is_row_major()) std::swap(triangular.m, triangular.n);
  if (!words.is_sound()) triangular.m = 0;
  Enter<T, Int>(routine, triangular, solves, names, here);
}

}  // namespace

// The function that a call would have gone to, and the Fortran ones of its family.
#define GEMMD_BLAS_BEHIND(prefix, suffix, Int, t, T, name)                             \
  static const Here<Cblas<T, Int>::name> function = #prefix "cblas_" #t #name #suffix; \
  const auto& names = names_##prefix##t##suffix

#define GEMMD_BLAS_GEMM(prefix, suffix, Int, t, T)                                               \
  GEMMD_BLAS_EXPORT void prefix##cblas_##t##gemm##suffix(                                        \
      int layout, int op_a, int op_b, Int m, Int n, Int k, Passed<T> alpha, const T* a, Int lda, \
      const T* b, Int ldb, Passed<T> beta, Out<T> c, Int ldc) {                                  \
    GEMMD_BLAS_BEHIND(prefix, suffix, Int, t, T, gemm);                                          \
    CallGemm<T, Int>(#t "gemm", names, function, layout, op_a, op_b, m, n, k, alpha, a, lda, b,  \
                     ldb, beta, c, ldc);                                                         \
  }

#define GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, name, Scalar, Number, is_hermitian)             \
  GEMMD_BLAS_EXPORT void prefix##cblas_##t##name##suffix(int layout, int triangle, int op, Int n,  \
                                                         Int k, Scalar alpha, const T* a, Int lda, \
                                                         Scalar beta, Out<T> c, Int ldc) {         \
    GEMMD_BLAS_BEHIND(prefix, suffix, Int, t, T, name);                                            \
    CallRank<T, Int, Number>(#t #name, names, function, is_hermitian, layout, triangle, op, n, k,  \
                             alpha, a, lda, beta, c, ldc);                                         \
  }

#define GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, name, Scalar, Number, is_hermitian)            \
  GEMMD_BLAS_EXPORT void prefix##cblas_##t##name##suffix(                                          \
      int layout, int triangle, int op, Int n, Int k, Passed<T> alpha, const T* a, Int lda,        \
      const T* b, Int ldb, Scalar beta, Out<T> c, Int ldc) {                                       \
    GEMMD_BLAS_BEHIND(prefix, suffix, Int, t, T, name);                                            \
    CallRank2<T, Int, Number>(#t #name, names, function, is_hermitian, layout, triangle, op, n, k, \
                              alpha, a, lda, b, ldb, beta, c, ldc);                                \
  }

#define GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, name, is_hermitian)                      \
  GEMMD_BLAS_EXPORT void prefix##cblas_##t##name##suffix(                                        \
      int layout, int side, int triangle, Int m, Int n, Passed<T> alpha, const T* a, Int lda,    \
      const T* b, Int ldb, Passed<T> beta, Out<T> c, Int ldc) {                                  \
    GEMMD_BLAS_BEHIND(prefix, suffix, Int, t, T, name);                                          \
    CallSymmetric<T, Int>(#t #name, names, function, is_hermitian, layout, side, triangle, m, n, \
                          alpha, a, lda, b, ldb, beta, c, ldc);                                  \
  }

#define GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, name, solves)                         \
  GEMMD_BLAS_EXPORT void prefix##cblas_##t##name##suffix(                                      \
      int layout, int side, int triangle, int op, int diagonal, Int m, Int n, Passed<T> alpha, \
      const T* a, Int lda, Out<T> b, Int ldb) {                                                \
    GEMMD_BLAS_BEHIND(prefix, suffix, Int, t, T, name);                                        \
    CallTriangular<T, Int>(#t #name, names, function, solves, layout, side, triangle, op,      \
                           diagonal, m, n, alpha, a, lda, b, ldb);                             \
  }

#define GEMMD_BLAS_ALL(prefix, suffix, Int, t, T)                         \
  GEMMD_BLAS_GEMM(prefix, suffix, Int, t, T)                              \
  GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, syrk, Passed<T>, T, false)   \
  GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, syr2k, Passed<T>, T, false) \
  GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, symm, false)            \
  GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, trmm, false)           \
  GEMMD_BLAS_TRIANGULAR(prefix, suffix, Int, t, T, trsm, true)
#define GEMMD_BLAS_HERMITIAN(prefix, suffix, Int, t, T)                      \
  GEMMD_BLAS_RANK(prefix, suffix, Int, t, T, herk, Real<T>, Real<T>, true)   \
  GEMMD_BLAS_RANK2(prefix, suffix, Int, t, T, her2k, Real<T>, Real<T>, true) \
  GEMMD_BLAS_SYMMETRIC(prefix, suffix, Int, t, T, hemm, true)

#define GEMMD_BLAS_FAMILY(prefix, suffix, Int)          \
  GEMMD_BLAS_TYPES(GEMMD_BLAS_ALL, prefix, suffix, Int) \
  GEMMD_BLAS_COMPLEX_TYPES(GEMMD_BLAS_HERMITIAN, prefix, suffix, Int)
GEMMD_BLAS_FAMILIES(GEMMD_BLAS_FAMILY)

}  // namespace gemmd::blas
