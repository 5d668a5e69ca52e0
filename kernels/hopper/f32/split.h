// The pass ahead of a product: the columns' operand as parts, 10 bytes of traffic an element.
#pragma once

#include "kernels/hopper/f32/layout.h"
#include "kernels/hopper/f32/params.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

inline constexpr int kSplitThreads = 256;

// Eight elements of a line, zeros where there are none. kHasUnits: K runs in units of 16 bytes.
template <bool kHasUnits>
GEMMD_DEVICE void LoadEight(const SplitParams& params, std::int32_t line, std::int32_t k,
                            float (&x)[8]) {
  GEMMD_UNROLL
  for (int i = 0; i < 8; ++i) x[i] = 0;
  if (line >= params.lines) return;
  const float* const from =
      params.from.data + line * params.from.line_stride + k * params.from.k_stride;
  if constexpr (kHasUnits) {
    if (k + 8 <= params.k) {
      GEMMD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const auto unit = ptx::LoadGlobal(reinterpret_cast<const ptx::Vector4*>(from + half * 4));
        x[half * 4] = ptx::FloatOfBits(unit.x);
        x[half * 4 + 1] = ptx::FloatOfBits(unit.y);
        x[half * 4 + 2] = ptx::FloatOfBits(unit.z);
        x[half * 4 + 3] = ptx::FloatOfBits(unit.w);
      }
      return;
    }
  }
  GEMMD_UNROLL
  for (int i = 0; i < 8; ++i) {
    if (k + i < params.k) x[i] = ptx::LoadGlobal(from + i * params.from.k_stride);
  }
}

// A warp takes 8 lines and one block of K, each lane 8 elements of a line, so that it reads lines
// of 128 bytes, or 32 bytes of each k where lines lie side by side, and writes 512 bytes of each
// part.
template <bool kHasUnits>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kSplitThreads, 4)
    SplitColumns(const GEMMD_GRID_CONSTANT SplitParams params) {
  if (params.starts_product_early) ptx::LaunchDependentGrid();
  // The launch ahead may still write the operand, or read parts of its own from where this one
  // writes.
  ptx::WaitForPrecedingGrid();
  if (!params.starts_product_early) ptx::LaunchDependentGrid();
  const auto k_blocks = static_cast<std::uint32_t>(params.k_blocks);
  const auto tile_groups = static_cast<std::uint32_t>(params.tile_groups);
  const std::uint32_t all = static_cast<std::uint32_t>(params.tiles) * tile_groups * k_blocks;
  const std::uint32_t lane = ptx::ThreadIndex() % 32;
  const std::uint32_t in_group = lane / 4;
  constexpr std::uint32_t kWarps = kSplitThreads / 32;
  for (std::uint32_t at = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32; at < all;
       at += ptx::GridSizeX() * kWarps) {
    const std::uint32_t group = at / k_blocks;
    const std::uint32_t k_block = at - group * k_blocks;
    const std::uint32_t tile = group / tile_groups;
    float x[8];
    LoadEight<kHasUnits>(params, static_cast<std::int32_t>(group * 8 + in_group),
                         static_cast<std::int32_t>(k_block * kBlockK + lane % 4 * 8), x);
    PartWords words[4];
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) words[i] = SplitPair(x[2 * i], x[2 * i + 1]);
    const std::uint64_t piece =
        (std::uint64_t{tile} * k_blocks + k_block) * tile_groups + (group - tile * tile_groups);
    const std::uint32_t chunk = (lane % 4) ^ (in_group / 2);
    std::uint16_t* const to =
        params.to + (piece * kPartGroupBytes + in_group * kPartLineBytes + chunk * 16) / 2;
    GEMMD_UNROLL
    for (int part = 0; part < kParts; ++part) {
      ptx::StoreGlobal(reinterpret_cast<ptx::Vector4*>(to + part * (kPartAtomBytes / 2)),
                       ptx::Vector4{words[0].word[part], words[1].word[part], words[2].word[part],
                                    words[3].word[part]});
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
