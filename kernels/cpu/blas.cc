#include "kernels/cpu/blas.h"

#include "openblas/cblas.h"

namespace gemmd {
namespace {

blasint Int(std::int64_t value) { return static_cast<blasint>(value); }

void BecomeSingleThreaded() {
  static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

CBLAS_TRANSPOSE Op(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

}  // namespace

void BlasGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
              std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  BecomeSingleThreaded();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, Op(transpose_b), Int(m), Int(n), Int(k), 1.0f, a,
              Int(lda), b, Int(ldb), 0.0f, c, Int(ldc));
}

}  // namespace gemmd
