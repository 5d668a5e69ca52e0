// A warp's operands in one step of K, loaded from a ring of stages by ldmatrix.
#pragma once

#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/platform.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

// A lane keeps two addresses, of its rows of A and of B at the first step of the stage that
// is read. From there on
//   * 8 rows more are swizzled alike: what they add is a constant;
//   * the chunks of a later step, or of a later pair of column tiles, differ from the first
//     ones in bits that those leave zero: their address is an XOR away, swizzle and all.
// Offsets computed in full took registers that two blocks do not have.
template <class ALayout, class BLayout, int kRowTiles, int kColumnTiles>
class FragmentReader {
 public:
  // Registers in the layouts of mma_sync.h.
  using ARow = std::uint32_t[4];             // a 16x16 tile of A
  using B = std::uint32_t[kColumnTiles][2];  // 16x8 tiles of B

  // The reader of the warp that computes rows from `row` on and columns from `column` on. Tiles are
  // aligned to 1024 bytes; columns to a warp's width.
  GEMMD_DEVICE FragmentReader(ptx::SharedAddress a_tile, ptx::SharedAddress b_tile,
                              std::uint32_t row, std::uint32_t column, std::uint32_t lane)
      : a_(a_tile + ALayout::Chunk(row + lane % 16, lane / 16)),
        b_(b_tile + BLayout::Chunk(lane % 16, column / 8 + lane / 16)) {}

  // Moves to the stage that lies `bytes` further on.
  GEMMD_DEVICE void Move(std::uint32_t bytes) {
    a_ += bytes;
    b_ += bytes;
  }

  // Row tile i of A.
  GEMMD_DEVICE void LoadARow(ARow& to, int i, int step) const {
    ptx::LoadMatrix4(to, (a_ ^ (step * 2 * ALayout::kChunkBytes)) + i * 16 * ALayout::kRowBytes);
  }

  // Column tiles 2 * pair and the next one of B.
  GEMMD_DEVICE void LoadBPair(B& to, int pair, int step) const {
    std::uint32_t both[4];
    ptx::LoadMatrix4Transposed(
        both, (b_ ^ (pair * 2 * Panel::kChunkBytes)) + step * 16 * Panel::kRowBytes);
    to[2 * pair][0] = both[0];
    to[2 * pair][1] = both[1];
    to[2 * pair + 1][0] = both[2];
    to[2 * pair + 1][1] = both[3];
  }

 private:
  using Panel = typename BLayout::Panel;
  static_assert(kColumnTiles % 2 == 0 && Panel::kRowChunks % kColumnTiles == 0,
                "a warp's columns are whole pairs, within a panel");

  ptx::SharedAddress a_;
  ptx::SharedAddress b_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
