// Batches of products, by the names that MKL and OpenBLAS have for them: one request. A BLAS of
// this machine that lacks such a function gets their products one by one.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "client/blas/entry.h"
#include "client/blas/fortran.h"

namespace gemmd::blas {
namespace {

template <typename T, typename Int>
using NamesOf = typename Fortran<T, Int>::Names;

// The types of the functions, by their interfaces.
template <typename T, typename Int>
struct Strided {
  using Cblas = void(int layout, int op_a, int op_b, Int m, Int n, Int k, T alpha, const T* a,
                     Int lda, Int a_stride, const T* b, Int ldb, Int b_stride, T beta, T* c,
                     Int ldc, Int c_stride, Int count);
  using ByAddress = void(const char* op_a, const char* op_b, const Int* m, const Int* n,
                         const Int* k, const T* alpha, const T* a, const Int* lda,
                         const Int* a_stride, const T* b, const Int* ldb, const Int* b_stride,
                         const T* beta, T* c, const Int* ldc, const Int* c_stride, const Int* count,
                         std::size_t, std::size_t);
};

// An operation that is none goes on as a letter that is none, and makes no product.
Op OpOfWord(int word) {
  switch (word) {
    case 111:
      return Op::kNone;
    case 112:
      return Op::kTranspose;
    case 113:
      return Op::kConjugate;
    default:
      return Op(0);
  }
}

// `own`: computes all of it by this machine's function of that name, if `has_own`.
template <typename T, typename Int, typename ComputeOwn>
void CallBatch(const char* routine, const NamesOf<T, Int>& names, const GemmBatch<T>& batch,
               bool has_own, ComputeOwn own) {
  const auto here = [&] {
    if (has_own) return own();
    const FortranHere<T, Int> local(names);
    for (std::int64_t i = 0; i < batch.count; ++i) local.Multiply(batch.At(i));
  };
  const Gemm<T>& first = batch.first;
  if (!GoesOn(Size(first.m) * Size(batch.count), Size(first.n), Size(first.k))) return here();
  Enter<T, Int>(routine, batch, names, here);
}

template <typename T, typename Int>
void CallCblas(const char* routine, const NamesOf<T, Int>& names,
               const Here<typename Strided<T, Int>::Cblas>& function, int layout, int op_a,
               int op_b, Int m, Int n, Int k, T alpha, const T* a, Int lda, Int a_stride,
               const T* b, Int ldb, Int b_stride, T beta, T* c, Int ldc, Int c_stride, Int count) {
  GemmBatch<T> batch{{OpOfWord(op_a), OpOfWord(op_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc},
                     count,
                     a_stride,
                     b_stride,
                     c_stride};
  if (layout == 101) {  // the rows are contiguous: the transposed product
    std::swap(batch.first.op_a, batch.first.op_b);
    std::swap(batch.first.m, batch.first.n);
    std::swap(batch.first.a, batch.first.b);
    std::swap(batch.first.lda, batch.first.ldb);
    std::swap(batch.a_stride, batch.b_stride);
  } else if (layout != 102) {
    batch.first.op_a = Op(0);
  }
  CallBatch<T, Int>(routine, names, batch, function.Find() != nullptr, [&] {
    function.Get()(layout, op_a, op_b, m, n, k, alpha, a, lda, a_stride, b, ldb, b_stride, beta, c,
                   ldc, c_stride, count);
  });
}

template <typename T, typename Int>
void CallFortran(const char* routine, const NamesOf<T, Int>& names,
                 const Here<typename Strided<T, Int>::ByAddress>& function, const char* op_a,
                 const char* op_b, const Int* m, const Int* n, const Int* k, const T* alpha,
                 const T* a, const Int* lda, const Int* a_stride, const T* b, const Int* ldb,
                 const Int* b_stride, const T* beta, T* c, const Int* ldc, const Int* c_stride,
                 const Int* count) {
  const GemmBatch<T> batch{
      {static_cast<Op>(Letter(*op_a, "NTC")), static_cast<Op>(Letter(*op_b, "NTC")), *m, *n, *k,
       *alpha, a, *lda, b, *ldb, *beta, c, *ldc},
      *count,
      *a_stride,
      *b_stride,
      *c_stride};
  CallBatch<T, Int>(routine, names, batch, function.Find() != nullptr, [&] {
    function.Get()(op_a, op_b, m, n, k, alpha, a, lda, a_stride, b, ldb, b_stride, beta, c, ldc,
                   c_stride, count, kOne, kOne);
  });
}

}  // namespace

// As in fortran.cc, lengths of strings are not declared.
#define GEMMD_BLAS_BATCH(prefix, suffix, Int, t, T)                                                \
  GEMMD_BLAS_EXPORT void prefix##cblas_##t##gemm_batch_strided##suffix(                            \
      int layout, int op_a, int op_b, Int m, Int n, Int k, T alpha, const T* a, Int lda,           \
      Int a_stride, const T* b, Int ldb, Int b_stride, T beta, Out<T> c, Int ldc, Int c_stride,    \
      Int count) {                                                                                 \
    static const Here<Strided<T, Int>::Cblas> function =                                           \
        #prefix "cblas_" #t "gemm_batch_strided" #suffix;                                          \
    CallCblas<T, Int>(#t "gemm_batch_strided", names_##prefix##t##suffix, function, layout, op_a,  \
                      op_b, m, n, k, alpha, a, lda, a_stride, b, ldb, b_stride, beta, c, ldc,      \
                      c_stride, count);                                                            \
  }                                                                                                \
  GEMMD_BLAS_EXPORT void prefix##t##gemm_batch_strided_##suffix(                                   \
      const char* op_a, const char* op_b, const Int* m, const Int* n, const Int* k,                \
      const T* alpha, const T* a, const Int* lda, const Int* a_stride, const T* b, const Int* ldb, \
      const Int* b_stride, const T* beta, Out<T> c, const Int* ldc, const Int* c_stride,           \
      const Int* count) {                                                                          \
    static const Here<Strided<T, Int>::ByAddress> function =                                       \
        #prefix #t "gemm_batch_strided_" #suffix;                                                  \
    CallFortran<T, Int>(#t "gemm_batch_strided", names_##prefix##t##suffix, function, op_a, op_b,  \
                        m, n, k, alpha, a, lda, a_stride, b, ldb, b_stride, beta, c, ldc,          \
                        c_stride, count);                                                          \
  }
#define GEMMD_BLAS_FAMILY(prefix, suffix, Int) \
  GEMMD_BLAS_REAL_TYPES(GEMMD_BLAS_BATCH, prefix, suffix, Int)
GEMMD_BLAS_FAMILIES(GEMMD_BLAS_FAMILY)

}  // namespace gemmd::blas
