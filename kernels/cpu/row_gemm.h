// A product whose bits do not depend on which rows stand beside a row.
//
// Each element of C is one chain of fused multiply-adds over K in ascending order (on a machine
// without FMA: of products and sums), so its bits depend on its own row of A and its own
// column of B alone: not on M, not on N, not on its place among them, nor on the width of the
// registers that compute it. OpenBLAS does not promise that: in version 0.3.21 sgemm, on Haswell
// and Zen, computes six rows of twelve in one way and six in another, and dgemm, on SkylakeX, rows
// by their place too.
//
// The error bound is that of any order of summation; see panel_gemm.h.
#pragma once

#include <cstdint>

namespace gemmd {

// The instructions that compute it; the best that the processor has are chosen when the program
// runs.
enum class RowGemmForm : std::uint8_t {
  kPlain,   // any processor's; products and sums
  kAvx2,    // with FMA
  kAvx512,  // the same bits as kAvx2
};
bool HasRowGemmForm(RowGemmForm form);
RowGemmForm BestRowGemmForm();

// C (m x n, row-major) = A * op(B); A is row-major m x k, B row-major k x n or, with
// transpose_b, n x k. One thread. REQUIRES: the processor has the form.
void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
             RowGemmForm form = BestRowGemmForm());
void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
             std::int64_t lda, const double* b, std::int64_t ldb, double* c, std::int64_t ldc,
             RowGemmForm form = BestRowGemmForm());

// "fma" or "multiply-add": what the chains are made of on this machine.
const char* RowGemmArithmetic();

}  // namespace gemmd
