#include "kernels/cpu/blas.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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

void BlasGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
              std::int64_t lda, const double* b, std::int64_t ldb, double* c, std::int64_t ldc) {
  BecomeSingleThreaded();
  cblas_dgemm(CblasRowMajor, CblasNoTrans, Op(transpose_b), Int(m), Int(n), Int(k), 1.0, a,
              Int(lda), b, Int(ldb), 0.0, c, Int(ldc));
}

const std::string& BlasVersion() {
  static const std::string* const version = [] {
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... MAX_THREADS=64"
    const std::vector<absl::string_view> words = absl::StrSplit(openblas_get_config(), ' ');
    return new std::string(absl::StrCat("openblas-", words.size() > 1 ? words[1] : "unknown", "-",
                                        openblas_get_corename()));
  }();
  return *version;
}

}  // namespace gemmd
