// A warp's operands of a block-scaled product in one step of K, and its scales in one tile of K.
#pragma once

#include <cstdint>

#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/workshop/sm120_mxfp8/mx_params.h"

namespace gemmd::sm120_mxfp8 {
inline namespace GEMMD_BACKEND {

// Words of four scales, those of 128 of K. Lane l has line 8 * (l % 4) + l / 4 of each 32: rows of
// two row tiles, or columns of four column tiles, as ptx/mma_sync_scaled.h wants them.
struct MxScales {
  std::uint32_t a[kWarpM / 32];
  std::uint32_t b[Mx::kWarpN / 32];
};

// Chunks of a later step differ from the first ones in bits that those leave zero: their address is
// an XOR away, swizzle and all (warp_fragments.h).
class MxFragmentReader {
 public:
  using ARow = std::uint32_t[4];               // a 16x32 tile of A
  using B = std::uint32_t[Mx::kWarpN / 8][2];  // 32x8 tiles of B

  // The reader of the warp that computes rows from `row` on and columns from `column` on, of the
  // stage at `stage`.
  GEMMD_DEVICE MxFragmentReader(ptx::SharedAddress stage, std::uint32_t row, std::uint32_t column,
                                std::uint32_t lane)
      : a_(stage + MxLayout::A::Chunk(row + lane % 16, lane / 16)),
        b_(stage + MxLayout::A::kBytes +
           MxLayout::B::Chunk(column + lane / 16 * 8 + lane % 8, lane / 8 % 2)),
        a_scales_(stage + MxLayout::kAScales + ScalePlace(row, lane)),
        b_scales_(stage + MxLayout::kBScales + ScalePlace(column, lane)) {}

  // Moves to the stage that lies `bytes` further on.
  GEMMD_DEVICE void Move(std::uint32_t bytes) {
    a_ += bytes;
    b_ += bytes;
    a_scales_ += bytes;
    b_scales_ += bytes;
  }

  // Row tile i of A.
  GEMMD_DEVICE void LoadARow(ARow& to, int i, int step) const {
    ptx::LoadMatrix4(to, (a_ ^ (step * 2 * Layout::kChunkBytes)) + i * 16 * Layout::kRowBytes);
  }

  // Column tiles 2 * pair and the next one of B.
  GEMMD_DEVICE void LoadBPair(B& to, int pair, int step) const {
    std::uint32_t both[4];
    ptx::LoadMatrix4(both, (b_ ^ (step * 2 * Layout::kChunkBytes)) + pair * 16 * Layout::kRowBytes);
    to[2 * pair][0] = both[0];
    to[2 * pair][1] = both[1];
    to[2 * pair + 1][0] = both[2];
    to[2 * pair + 1][1] = both[3];
  }

  GEMMD_DEVICE MxScales LoadScales() const {
    MxScales scales;
    GEMMD_UNROLL
    for (int i = 0; i < kWarpM / 32; ++i) {
      scales.a[i] = ptx::LoadShared<std::uint32_t>(a_scales_ + i * 4);
    }
    GEMMD_UNROLL
    for (int i = 0; i < Mx::kWarpN / 32; ++i) {
      scales.b[i] = ptx::LoadShared<std::uint32_t>(b_scales_ + i * 4);
    }
    return scales;
  }

 private:
  using Layout = MxLayout::A;  // B's rows are as long

  // Line r's word lies at r % 32 * 16 + r / 32 * 4 (base/numbers/scaling.h). REQUIRES: first % 32
  // == 0.
  static GEMMD_DEVICE std::uint32_t ScalePlace(std::uint32_t first, std::uint32_t lane) {
    return (8 * (lane % 4) + lane / 4) * 16 + first / 32 * 4;
  }

  ptx::SharedAddress a_;
  ptx::SharedAddress b_;
  ptx::SharedAddress a_scales_;
  ptx::SharedAddress b_scales_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120_mxfp8
