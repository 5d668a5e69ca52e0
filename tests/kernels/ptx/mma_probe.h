// A kernel of one mma.sync a warp, for comparing the emulator with a GPU bit by bit.
#pragma once

#include "kernels/ptx/convert.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mma_sync.h"

namespace gemmd::ptx {

enum class MmaForm : int { kF16ToF32, kBf16ToF32, kF16ToF16 };

inline namespace GEMMD_BACKEND {

struct MmaProbeParams {
  const std::uint32_t* in;  // per lane: 4 words of A, 2 of B, 4 of C (2 for kF16ToF16)
  std::uint32_t* out;       // per lane: 4 words of D
};

template <MmaForm kForm>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    MmaProbe(const GEMMD_GRID_CONSTANT MmaProbeParams params) {
  const std::uint32_t lane = BlockIndexX() * 32 + ThreadIndex();
  const std::uint32_t* in = params.in + lane * 10;
  std::uint32_t* out = params.out + lane * 4;
  std::uint32_t a[4];
  std::uint32_t b[2];
  std::uint32_t c[4];
  for (int i = 0; i < 4; ++i) a[i] = LoadGlobal(in + i);
  for (int i = 0; i < 2; ++i) b[i] = LoadGlobal(in + 4 + i);
  for (int i = 0; i < 4; ++i) c[i] = LoadGlobal(in + 6 + i);
  if constexpr (kForm == MmaForm::kF16ToF16) {
    std::uint32_t d[2] = {c[0], c[1]};
    MmaF16AccumulateF16(d, a, b);
    c[0] = d[0];
    c[1] = d[1];
  } else {
    float d[4];
    for (int i = 0; i < 4; ++i) d[i] = FloatOfBits(c[i]);
    if constexpr (kForm == MmaForm::kF16ToF32) {
      MmaF16(d, a, b);
    } else {
      MmaBf16(d, a, b);
    }
    for (int i = 0; i < 4; ++i) c[i] = BitsOfFloat(d[i]);
  }
  for (int i = 0; i < 4; ++i) StoreGlobal(out + i, c[i]);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
