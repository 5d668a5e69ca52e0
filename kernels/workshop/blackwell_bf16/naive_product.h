// c1: one thread an element of D.
#pragma once

#include "kernels/mma/half_gemm_params.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/platform.h"

namespace gemmd::blackwell_bf16 {
inline namespace GEMMD_BACKEND {

// Products are rounded to f32, which of 16-bit elements loses nothing but beyond its range, and
// added in order of K.
template <class Step, class Types, ptx::Major kBMajor>
GEMMD_DEVICE void NaiveProduct(const mma::HalfGemmParams& gemm, const mma::TileCorner& corner) {
  const auto thread = static_cast<std::int32_t>(ptx::ThreadIndex());
  const std::int32_t row = corner.row + thread / Step::kTileN;
  const std::int32_t column = corner.column + thread % Step::kTileN;
  if (row >= gemm.m || column >= gemm.n) return;
  const bool is_k_major = kBMajor == ptx::Major::kK;
  const std::uint16_t* a = gemm.a + row * gemm.lda;
  const std::uint16_t* b = is_k_major ? gemm.b + column * gemm.ldb : gemm.b + column;
  const std::int64_t next = is_k_major ? 1 : gemm.ldb;
  float sum = 0;
  for (std::int32_t k = 0; k < gemm.k; ++k) {
    sum += Types::Widen(ptx::LoadGlobal(a)) * Types::Widen(ptx::LoadGlobal(b));
    ++a;
    b += next;
  }
  ptx::StoreGlobal(gemm.d + row * gemm.ldd + column,
                   static_cast<std::uint16_t>(Types::Pack(sum, sum)));
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_bf16
