// The one OpenBLAS entry point used.
#pragma once

#include <cstdint>

namespace gemmd {

// C (m x n, row-major) = op(A) * op(B); A is row-major m x k, B row-major
// k x n or, with transpose_b, n x k. One thread. The first call of the process makes
// OpenBLAS single-threaded for good: the callers are the parallelism.
void BlasGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
              std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc);

}  // namespace gemmd
