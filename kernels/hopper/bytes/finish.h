// From a tile's sums to D: scales of lines, then what the half family does with its sums.
#pragma once

#include "kernels/hopper/bytes/formats.h"
#include "kernels/hopper/bytes/params.h"
#include "kernels/hopper/half/wgmma_epilogue.h"
#include "kernels/hopper/half/wgmma_store.h"

namespace gemmd::hopper::bytes {
inline namespace GEMMD_BACKEND {

template <class Layout, class Format>
using Sums = typename Format::Sum[Layout::kRowBlocks][Layout::kTileN / 2];

// The row of a thread's sums: the `half`th of two in each of its group's blocks of 64. `thread` is
// of the group.
GEMMD_DEVICE std::int32_t RowOf(std::int32_t first_row, int half, std::int32_t thread) {
  return first_row + half / 2 * 64 + half % 2 * 8 + thread / 32 * 16 + thread % 32 / 4;
}

GEMMD_DEVICE float ScaleOf(const LineScales& scales, std::int32_t line, std::int32_t lines) {
  return ptx::LoadGlobal(scales.data + (line < lines ? line : lines - 1) * scales.step);
}

// Multiplies sums by the scales of rows, or of columns.
template <class Layout>
GEMMD_DEVICE void ScaleRows(const ByteParams& params, const Consumer& me, std::int32_t first_row,
                            half::Accumulators<Layout>& sums) {
  const auto thread = static_cast<std::int32_t>(me.warp * 32 + me.lane);
  GEMMD_UNROLL
  for (int i = 0; i < 2 * Layout::kRowBlocks; ++i) {
    const float scale = ScaleOf(params.row_scales, RowOf(first_row, i, thread), params.m);
    GEMMD_UNROLL
    for (int j = 0; j < Layout::kTileN / 4; ++j)
      sums[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2] *= scale;
  }
}

template <class Layout>
GEMMD_DEVICE void ScaleColumns(const ByteParams& params, const Consumer& me,
                               std::int32_t first_column, half::Accumulators<Layout>& sums) {
  GEMMD_UNROLL
  for (int j = 0; j < Layout::kTileN / 4; ++j) {
    const std::int32_t column =
        first_column + j / 2 * 8 + j % 2 + static_cast<std::int32_t>(me.lane % 4 * 2);
    const float scale = ScaleOf(params.column_scales, column, params.n);
    GEMMD_UNROLL
    for (int i = 0; i < 2 * Layout::kRowBlocks; ++i) {
      sums[i / 2][j / 2 * 4 + i % 2 * 2 + j % 2] *= scale;
    }
  }
}

// A's scales come first, whichever operand gives the rows: the order that kernels/epilogue has.
template <class Layout>
GEMMD_DEVICE void ScaleLines(const ByteParams& params, const Consumer& me, const TileCorner& corner,
                             half::Accumulators<Layout>& sums) {
  if (params.is_swapped && params.column_scales.data != nullptr) {
    ScaleColumns<Layout>(params, me, corner.n, sums);
  }
  if (params.row_scales.data != nullptr) ScaleRows<Layout>(params, me, corner.m, sums);
  if (!params.is_swapped && params.column_scales.data != nullptr) {
    ScaleColumns<Layout>(params, me, corner.n, sums);
  }
}

// Writes sums that are D's values, up to their rounding.
template <class Layout, bool kHasEpilogue>
GEMMD_DEVICE void WriteTile(const ByteParams& params, const Consumer& me,
                            half::Accumulators<Layout>& sums, ptx::SharedAddress output,
                            ptx::SharedAddress drained, bool is_last, const TileCorner& corner) {
  if constexpr (kHasEpilogue) {
    if (params.d_type == DataType::kF16) {
      half::FinishTile<Layout, F16Element>(params, me, sums, output, corner);
    } else {
      half::FinishTile<Layout, Bf16Element>(params, me, sums, output, corner);
    }
  } else if (params.d_type == DataType::kF16) {
    half::StoreTile<Layout, F16Element>(params, me, sums, output, drained, is_last, corner);
  } else if (params.d_type == DataType::kBf16) {
    half::StoreTile<Layout, Bf16Element>(params, me, sums, output, drained, is_last, corner);
  } else {
    half::StoreSums<Layout>(params, me, sums, corner);
  }
}

template <class Layout, class Format, bool kHasEpilogue>
GEMMD_DEVICE void FinishTile(const ByteParams& params, const Consumer& me,
                             Sums<Layout, Format>& sums, ptx::SharedAddress output,
                             ptx::SharedAddress drained, bool is_last, const TileCorner& corner) {
  half::Accumulators<Layout> values;
  const bool is_int32 = params.d_type == DataType::kInt32;
  GEMMD_UNROLL
  for (int i = 0; i < Layout::kRowBlocks; ++i) {
    GEMMD_UNROLL
    for (int j = 0; j < Layout::kTileN / 2; ++j) {
      if constexpr (Format::kIsPromoted) {
        values[i][j] = sums[i][j];
      } else {
        // int32 leaves as its bits: stores move 32 of them.
        values[i][j] = is_int32 ? ptx::FloatOfBits(static_cast<std::uint32_t>(sums[i][j]))
                                : static_cast<float>(sums[i][j]);
      }
    }
  }
  ScaleLines<Layout>(params, me, corner, values);
  WriteTile<Layout, kHasEpilogue>(params, me, values, output, drained, is_last, corner);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::bytes
