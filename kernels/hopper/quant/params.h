// The parameters of both kernels, for few rows and for many: of one product, and of groups of rows
// that have products of their own.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/ptx/platform.h"
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
  std::int32_t first_row;  // of A, C and D, for few rows
  std::int32_t m;          // where rows end
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

// The most groups of a launch: with them, the parameters stay within 32764 bytes.
inline constexpr int kGroupCapacity = 1024;

struct GroupRows {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t product;      // of B and the bias
  std::uint32_t first_tile;  // its first row of tiles; the groups' follow each other
};

// Groups of the rows, each with its product's B and bias. Those here are product 0's.
struct QuantGroupParams : QuantParams {
  // Bytes from a product's to the next one's.
  std::int64_t code_step;
  std::int64_t scale_step;
  std::int64_t shift_step;
  std::int64_t bias_step;
  std::uint32_t count;
  GroupRows groups[kGroupCapacity];
};
static_assert(sizeof(QuantGroupParams) <= 32764);

// Rows of a row of tiles: from `first` on, before `end`.
struct TileRows {
  std::int32_t first;
  std::int32_t end;
  std::int32_t product;
};
template <int kRows>
GEMMD_DEVICE TileRows RowsOfTiles(const QuantParams& params, std::uint32_t row_tile) {
  return {static_cast<std::int32_t>(row_tile * kRows), params.m, 0};
}
template <int kRows>
GEMMD_DEVICE TileRows RowsOfTiles(const QuantGroupParams& params, std::uint32_t row_tile) {
  std::uint32_t low = 0;
  std::uint32_t high = params.count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (params.groups[middle].first_tile <= row_tile ? low : high) = middle;
  }
  const GroupRows& group = params.groups[low];
  const auto before = static_cast<std::int32_t>((row_tile - group.first_tile) * kRows);
  return {group.begin + before, group.end, group.product};
}

// The planes of a product's B.
struct ProductPlanes {
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  const std::uint8_t* shifts;
};
GEMMD_DEVICE ProductPlanes PlanesOf(const QuantParams& params, std::int32_t /*product*/) {
  return {params.codes, params.scales, params.shifts};
}
GEMMD_DEVICE ProductPlanes PlanesOf(const QuantGroupParams& params, std::int32_t product) {
  return {params.codes + product * params.code_step, params.scales + product * params.scale_step,
          params.shifts + product * params.shift_step};
}

// The parameters as rows have them that end at rows.end.
GEMMD_DEVICE const QuantParams& ParamsOf(const QuantParams& params, const TileRows& /*rows*/) {
  return params;
}
GEMMD_DEVICE QuantParams ParamsOf(const QuantGroupParams& params, const TileRows& rows) {
  QuantParams own = params;
  const ProductPlanes planes = PlanesOf(params, rows.product);
  own.codes = planes.codes;
  own.scales = planes.scales;
  own.shifts = planes.shifts;
  if (own.bias != nullptr) {
    own.bias = static_cast<const char*>(own.bias) + rows.product * params.bias_step;
  }
  own.first_row = rows.first;
  own.m = rows.end;
  return own;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
