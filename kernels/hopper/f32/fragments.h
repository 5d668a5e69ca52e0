// Rows on their way from f32 in a stage to wgmma's A in registers, as parts.
#pragma once

#include "kernels/hopper/f32/layout.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

// A thread's share of 64 rows by a block of K.
using Fragments = std::uint32_t[kSteps][kParts][4];

// The row of eight that a lane's fragments and sums are of. wgmma says lane / 4; rows may go by any
// names as long as D's do, and with these the loads of K-major rows touch every bank once.
GEMMD_DEVICE std::uint32_t RowOfLane(std::uint32_t lane) { return lane / 4 % 4 * 2 + lane / 16; }

// Two neighbours of K at (row, k) of the warp's 16 rows; row % 8 is the lane's.
template <Major kRowMajor>
GEMMD_DEVICE void LoadPair(ptx::SharedAddress rows, std::uint32_t row, std::uint32_t k,
                           float (&pair)[2]) {
  struct Two {
    float value[2];
  };
  if constexpr (kRowMajor == Major::kK) {
    const auto two =
        ptx::LoadShared<Two>(rows + row * kSpanBytes + (((k / 4) ^ (row % 8)) * 16) + k % 4 * 4);
    pair[0] = two.value[0];
    pair[1] = two.value[1];
  } else {
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      pair[i] = ptx::LoadShared<float>(rows + (k + i) * kSpanBytes +
                                       (((row / 4) ^ ((k + i) % 8)) * 16) + row % 4 * 4);
    }
  }
}

// `rows`: the group's 64 in a stage, of one block of K.
template <Major kRowMajor>
GEMMD_DEVICE void SplitRows(ptx::SharedAddress rows, std::uint32_t warp, std::uint32_t lane,
                            Fragments& fragments) {
  // MN-major: the warp's rows are half of a span.
  const ptx::SharedAddress own =
      kRowMajor == Major::kK ? rows + warp * 16 * kSpanBytes : rows + warp / 2 * kRowSpanBytes;
  const std::uint32_t first_row = RowOfLane(lane) + (kRowMajor == Major::kK ? 0 : warp % 2 * 16);
  GEMMD_UNROLL
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {  // rows 0 and 8, then the same 8 of K later
      float pair[2];
      LoadPair<kRowMajor>(own, first_row + i % 2 * 8, step * 16 + i / 2 * 8 + lane % 4 * 2, pair);
      const PartWords words = SplitPair(pair[0], pair[1]);
      GEMMD_UNROLL
      for (int part = 0; part < kParts; ++part) fragments[step][part][i] = words.word[part];
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
