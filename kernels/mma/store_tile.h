// A tile of D from accumulators through shared memory to global memory, so that it is written
// 16 bytes a thread and whole rows at a time.
#pragma once

#include "kernels/mma/half_gemm_params.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// A warp's 16x8 tiles of sums, as words of the output type, to (row, column) of `tile`.
template <class Types, class Layout, int kRowTiles, int kColumnTiles>
GEMMD_DEVICE void StageSums(const typename Types::Accumulator (&sum)[kRowTiles][kColumnTiles],
                            ptx::SharedAddress tile, std::uint32_t row, std::uint32_t column,
                            std::uint32_t lane) {
  GEMMD_UNROLL
  for (int i = 0; i < kRowTiles; ++i) {
    GEMMD_UNROLL
    for (int j = 0; j < kColumnTiles; ++j) {
      GEMMD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t at_row = row + i * 16 + lane / 4 + 8 * half;
        const std::uint32_t at_column = column + j * 8 + 2 * (lane % 4);
        ptx::StoreShared(tile + Layout::Element(at_row, at_column), Types::Output(sum[i][j], half));
      }
    }
  }
}

// The first `count` of eight elements: a row of D may end inside a chunk, and what follows it
// need not be ours.
GEMMD_DEVICE void StorePart(std::uint16_t* to, const ptx::Vector4& value, std::int32_t count) {
  const std::uint32_t words[4] = {value.x, value.y, value.z, value.w};
  GEMMD_UNROLL
  for (int i = 0; i < 8; ++i) {
    if (i >= count) continue;
    ptx::StoreGlobal(to + i, static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2))));
  }
}

// Copies the staged tile to D, by all threads of the block. REQUIRES: the block has staged it.
template <class Layout, int kThreads>
GEMMD_DEVICE void StoreStagedTile(const HalfGemmParams& params, ptx::SharedAddress tile,
                                  const TileCorner& corner, std::uint32_t thread) {
  constexpr int kRowsAtOnce = kThreads / Layout::kRowChunks;
  const std::uint32_t chunk = thread % Layout::kRowChunks;
  const std::int32_t column = corner.column + static_cast<std::int32_t>(chunk * 8);
  GEMMD_UNROLL
  for (int i = 0; i < Layout::kRows / kRowsAtOnce; ++i) {
    const std::uint32_t row = thread / Layout::kRowChunks + i * kRowsAtOnce;
    const std::int32_t matrix_row = corner.row + static_cast<std::int32_t>(row);
    if (matrix_row >= params.m || column >= params.n) continue;
    std::uint16_t* to = params.d + matrix_row * params.ldd + column;
    const auto value = ptx::LoadShared<ptx::Vector4>(tile + Layout::Chunk(row, chunk));
    if (column + 8 <= params.n) {
      ptx::StoreGlobal(reinterpret_cast<ptx::Vector4*>(to), value);
    } else {
      StorePart(to, value, params.n - column);
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
