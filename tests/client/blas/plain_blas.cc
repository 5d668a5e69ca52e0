// A BLAS that computes element by element and counts its calls: the BLAS of this machine in tests
// of libgemmd_blas.so. It has some of its names in each family.
#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/client/blas/plain.h"

namespace gemmd::blas {
namespace {

std::atomic<long> calls = 0;
std::atomic<long> refusals = 0;

// So quick that no server is quicker; what it computes is wrong.
bool IsInstant() {
  static const bool is_instant = std::getenv("PLAIN_BLAS_INSTANT") != nullptr;
  return is_instant;
}

template <typename T, typename Int>
void Multiply(const char* op_a, const char* op_b, const Int* m, const Int* n, const Int* k,
              const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta,
              T* c, const Int* ldc) {
  // The library under test measures this BLAS, which is no call of its user's, and with complex
  // numbers would take seconds.
  const bool is_measured = *m == 384 && *n == 384 && *k == 384;
  if (!is_measured) ++calls;
  if (IsInstant() || (is_measured && kIsComplex<T>)) return;
  const Gemm<T> gemm{static_cast<Op>(*op_a),
                     static_cast<Op>(*op_b),
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
  Gemm<T> with_alpha = gemm;
  with_alpha.alpha = T(1);
  if (*m <= 0 || *n <= 0 || !(IsProduct(with_alpha) || *k == 0)) {
    ++refusals;
    return;
  }
  Plainly(gemm);
}

}  // namespace
}  // namespace gemmd::blas

using gemmd::blas::calls;
using gemmd::blas::Multiply;
using gemmd::blas::refusals;

// An argument that is written.
template <typename T>
using Out = T*;

extern "C" {

// Calls since it was asked before.
long plain_calls() { return calls.exchange(0); }
long plain_refusals() { return refusals.exchange(0); }

#define PLAIN_GEMM(name, T, Int)                                                                   \
  void name(const char* op_a, const char* op_b, const Int* m, const Int* n, const Int* k,          \
            const T* alpha, const T* a, const Int* lda, const T* b, const Int* ldb, const T* beta, \
            Out<T> c, const Int* ldc, std::size_t, std::size_t) {                                  \
    Multiply<T, Int>(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                    \
  }
PLAIN_GEMM(sgemm_, float, std::int32_t)
PLAIN_GEMM(dgemm_, double, std::int32_t)
PLAIN_GEMM(cgemm_, std::complex<float>, std::int32_t)
PLAIN_GEMM(zgemm_, std::complex<double>, std::int32_t)
PLAIN_GEMM(scipy_sgemm_64_, float, std::int64_t)
PLAIN_GEMM(scipy_dgemm_64_, double, std::int64_t)

// By the Fortran function's name, as reference BLAS does.
void scipy_cblas_dgemm64_(int layout, int op_a, int op_b, std::int64_t m, std::int64_t n,
                          std::int64_t k, double alpha, const double* a, std::int64_t lda,
                          const double* b, std::int64_t ldb, double beta, double* c,
                          std::int64_t ldc) {
  const char letters[] = "NTC";
  const char* const a_letter = &letters[op_a - 111];
  const char* const b_letter = &letters[op_b - 111];
  if (layout == 102) {
    scipy_dgemm_64_(a_letter, b_letter, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
  } else {
    scipy_dgemm_64_(b_letter, a_letter, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
  }
}

// The one function of batches that it has: a call, however many products.
void scipy_cblas_dgemm_batch_strided64_(int layout, int op_a, int op_b, std::int64_t m,
                                        std::int64_t n, std::int64_t k, double alpha,
                                        const double* a, std::int64_t lda, std::int64_t a_stride,
                                        const double* b, std::int64_t ldb, std::int64_t b_stride,
                                        double beta, double* c, std::int64_t ldc,
                                        std::int64_t c_stride, std::int64_t count) {
  const long before = calls;
  for (std::int64_t i = 0; i < count; ++i) {
    scipy_cblas_dgemm64_(layout, op_a, op_b, m, n, k, alpha, a + i * a_stride, lda,
                         b + i * b_stride, ldb, beta, c + i * c_stride, ldc);
  }
  calls = before + 1;
}

#define PLAIN_SYRK(name, Int)                                                                      \
  void name(const char* triangle, const char* op, const Int* n, const Int* k, const double* alpha, \
            const double* a, const Int* lda, const double* beta, double* c, const Int* ldc,        \
            std::size_t, std::size_t) {                                                            \
    ++calls;                                                                                       \
    gemmd::blas::Plainly(gemmd::blas::Rank<double>{                                                \
        false, static_cast<gemmd::blas::Triangle>(*triangle), static_cast<gemmd::blas::Op>(*op),   \
        *n, *k, *alpha, a, *lda, *beta, c, *ldc});                                                 \
  }
PLAIN_SYRK(dsyrk_, std::int32_t)
PLAIN_SYRK(scipy_dsyrk_64_, std::int64_t)

// Column-major calls of it are made nowhere.
void scipy_cblas_dsyrk64_(int, int triangle, int op, std::int64_t n, std::int64_t k, double alpha,
                          const double* a, std::int64_t lda, double beta, double* c,
                          std::int64_t ldc) {
  scipy_dsyrk_64_(triangle == 121 ? "L" : "U", op == 111 ? "T" : "N", &n, &k, &alpha, a, &lda,
                  &beta, c, &ldc, 1, 1);
}

}  // extern "C"
