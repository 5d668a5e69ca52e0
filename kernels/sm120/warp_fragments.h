// What a warp multiplies in one step of K, loaded from a stage by ldmatrix.
#pragma once

#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/platform.h"

namespace gemmd::sm120 {
inline namespace GEMMD_BACKEND {

// 16x16 tiles of A and 16x8 tiles of B, in the layouts of mma_sync.h.
template <int kRowTiles, int kColumnTiles>
struct WarpFragments {
  std::uint32_t a[kRowTiles][4];
  std::uint32_t b[kColumnTiles][2];
};

// Where a lane reads, as offsets from the tiles of a stage: a swizzle's XOR costs its
// instructions once, not in every step. What is left adds multiples of 8 rows, which are
// swizzled alike.
template <class ALayout, class BLayout, int kRowTiles, int kColumnTiles>
class FragmentReader {
 public:
  using Fragments = WarpFragments<kRowTiles, kColumnTiles>;

  // Of the warp that computes rows from `row` on and columns from `column` on.
  GEMMD_DEVICE FragmentReader(std::uint32_t row, std::uint32_t column, std::uint32_t lane) {
    GEMMD_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      a_[step] = ALayout::Chunk(row + lane % 16, step * 2 + lane / 16);
    }
    GEMMD_UNROLL
    for (int pair = 0; pair < kPairs; ++pair) {
      b_[pair] = BLayout::Chunk(lane % 16, column / 8 + pair * 2 + lane / 16);
    }
  }

  GEMMD_DEVICE void Load(Fragments& to, ptx::SharedAddress a_tile, ptx::SharedAddress b_tile,
                         int step) const {
    GEMMD_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      ptx::LoadMatrix4(to.a[i], a_tile + a_[step] + i * 16 * ALayout::kRowBytes);
    }
    GEMMD_UNROLL
    for (int pair = 0; pair < kPairs; ++pair) {
      std::uint32_t both[4];
      ptx::LoadMatrix4Transposed(both, b_tile + b_[pair] + step * 16 * BLayout::Panel::kRowBytes);
      to.b[2 * pair][0] = both[0];
      to.b[2 * pair][1] = both[1];
      to.b[2 * pair + 1][0] = both[2];
      to.b[2 * pair + 1][1] = both[3];
    }
  }

 private:
  static constexpr int kSteps = ALayout::kColumns / 16;
  static constexpr int kPairs = kColumnTiles / 2;  // of column tiles, by one ldmatrix each
  static_assert(kColumnTiles % 2 == 0, "whole pairs");

  std::uint32_t a_[kSteps];
  std::uint32_t b_[kPairs];
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120
