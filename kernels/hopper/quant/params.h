// The parameters of both kernels, for few rows and for many.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

struct QuantParams {
  ptx::TensorMap rows;  // A: 64 x M x K / 64
  // B, packed (packed.h).
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  const std::uint8_t* shifts;  // offsets or zero points; null: it has none
  const float* tensor_scale;   // likewise
  const float* row_sums;       // row_sums.h; likewise
  // Where codes have one: the first term of each number, and in the upper half the second.
  std::uint32_t table[16];
  bool weights_are_settled;  // no launch ahead writes them
  bool scales_are_bf16;      // and offsets, where they are of 16 bits; else f16
  bool scales_are_of_lines;  // for all of K; zero points too
  // The turn of weights with whose loading the next grid may start; for few rows.
  std::int32_t trigger;
  std::int32_t m;
  std::int32_t n;
  std::int32_t k_groups;
  std::uint32_t tiles_m;  // of the kernel for many rows
  std::uint32_t tiles_n;  // of clusters
  ptx::CachePolicy weight_policy = ptx::CachePolicy::kNormal;

  // D, C and bias are of d_type.
  void* d;
  std::int64_t d_row_stride;  // elements
  std::int64_t d_column_stride;
  DataType d_type;
  // The epilogue, where there is one.
  bool has_epilogue;
  const void* c;  // null: none
  std::int64_t c_row_stride;
  std::int64_t c_column_stride;
  const void* bias;  // one element a column of D; null: none
  float alpha;
  float beta;
  Activation activation;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
