// A thread's part in copying tiles of A and B to shared memory by cp.async, along K.
#pragma once

#include "kernels/mma/half_gemm_params.h"
#include "kernels/ptx/copy_async.h"
#include "kernels/ptx/platform.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// Keeps where the thread's first chunks of A and B lie and moves them along K, which takes
// fewer registers than finding each row again.
template <class ALayout, class BLayout, int kThreads>
class TileCopies {
 public:
  GEMMD_DEVICE void Start(const HalfGemmParams& params, std::uint32_t thread,
                          const TileCorner& corner) {
    const std::uint32_t a_row = thread / ALayout::kRowChunks;
    const std::uint32_t b_row = thread / BLayout::kRowChunks;
    const auto a_column = static_cast<std::int32_t>(thread % ALayout::kRowChunks * 8);
    const auto b_column =
        corner.column + static_cast<std::int32_t>(thread % BLayout::kRowChunks * 8);
    a_source_ = params.a + static_cast<std::int64_t>(corner.row + a_row) * params.lda + a_column;
    b_source_ = params.b + b_row * params.ldb + b_column;
    a_rows_left_ = params.m - corner.row - static_cast<std::int32_t>(a_row);
    b_bytes_ = BytesInside(b_column, params.n);
  }

  // Issues the copies of the next tile of K, which starts at `first_k`. Elements outside the
  // matrices become zero, which adds nothing to the product.
  GEMMD_DEVICE void Issue(const HalfGemmParams& params, std::uint32_t thread, std::int32_t first_k,
                          ptx::SharedAddress a_tile, ptx::SharedAddress b_tile) {
    const auto a_column = static_cast<std::int32_t>(thread % ALayout::kRowChunks * 8);
    const auto b_row = static_cast<std::int32_t>(thread / BLayout::kRowChunks);
    Copy<ALayout>(thread, a_tile, a_source_, params.lda, a_rows_left_,
                  BytesInside(first_k + a_column, params.k));
    Copy<BLayout>(thread, b_tile, b_source_, params.ldb, params.k - first_k - b_row, b_bytes_);
    a_source_ += ALayout::kColumns;
    b_source_ += BLayout::kRows * params.ldb;
  }

 private:
  // Returns how many of a chunk's 16 bytes lie before the end of its row.
  static GEMMD_DEVICE std::uint32_t BytesInside(std::int32_t column, std::int32_t columns) {
    const std::int32_t left = columns - column;
    return left <= 0 ? 0u : left >= 8 ? 16u : static_cast<std::uint32_t>(2 * left);
  }

  // Every kRowsAtOnce rows from `source` on: zeros from `rows_left` on, and what a row has
  // beyond `bytes`.
  template <class Layout>
  static GEMMD_DEVICE void Copy(std::uint32_t thread, ptx::SharedAddress tile,
                                const std::uint16_t* source, std::int64_t leading_dimension,
                                std::int32_t rows_left, std::uint32_t bytes) {
    constexpr int kRowsAtOnce = kThreads / Layout::kRowChunks;
    const std::uint32_t row = thread / Layout::kRowChunks;
    const std::uint32_t chunk = thread % Layout::kRowChunks;
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kRows / kRowsAtOnce; ++i) {
      ptx::CopyAsync16(tile + Layout::Chunk(row + i * kRowsAtOnce, chunk), source,
                       i * kRowsAtOnce < rows_left ? bytes : 0);
      source += kRowsAtOnce * leading_dimension;
    }
  }

  const std::uint16_t* a_source_;
  const std::uint16_t* b_source_;
  std::int32_t a_rows_left_;
  std::uint32_t b_bytes_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
