// The kernel behind landing.h: a warp for a unit at a time. It reads single bytes, and is as quick
// as a copy of B over a network needs it to be; nothing of a product waits for it.
#pragma once

#include "kernels/hopper/quant/landed.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::quant {

inline constexpr int kLandingThreads = 256;

inline namespace GEMMD_BACKEND {

struct LandingParams {
  const std::uint8_t* codes;  // two in a byte, the even one low
  const std::uint16_t* scales;
  const std::uint8_t* zero_points;
  std::uint8_t* landed;
  std::int64_t line_stride;  // codes
  std::int64_t k_stride;
  std::int64_t scale_line_stride;
  std::int64_t scale_group_stride;
  std::int64_t n;
  std::int64_t k;
  std::int64_t groups;
  std::int64_t units;
  std::uint32_t bias;      // of signed codes and zero points: 8
  std::uint32_t pad_code;  // what is worth zero where the line has no zero point
};

// A code as it is stored, and of a place past N or K the one that is worth nothing.
template <ZeroKind kZero>
GEMMD_DEVICE std::uint32_t LandedCode(const LandingParams& params, std::int64_t line,
                                      std::int64_t k, std::uint32_t zero) {
  if (line >= params.n || k >= params.k) return kZero == ZeroKind::kPlane ? zero : params.pad_code;
  const std::int64_t index = line * params.line_stride + k * params.k_stride;
  const std::uint32_t both = ptx::LoadGlobal(params.codes + index / 2);
  return ((both >> (index % 2 * 4)) & 15) ^ params.bias;
}

template <ZeroKind kZero>
GEMMD_DEVICE std::uint32_t LandedZero(const LandingParams& params, std::int64_t line,
                                      std::int64_t group) {
  if (kZero != ZeroKind::kPlane || line >= params.n) return 0;
  const std::uint32_t zero = ptx::LoadGlobal(params.zero_points + line * params.scale_line_stride +
                                             group * params.scale_group_stride);
  return (zero + params.bias) & 15;
}

// The size as a value, which device code may use where it may call no function of the host.
template <ZeroKind kZero>
struct Unit {
  static constexpr int kBytes = UnitBytes(kZero);
};

template <ZeroKind kZero>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kLandingThreads, 2)
    LandUnits(GEMMD_GRID_CONSTANT const LandingParams params) {
  constexpr int kWarps = kLandingThreads / 32;
  const std::uint32_t lane = ptx::LaneIndex();
  for (std::int64_t unit = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32;
       unit < params.units; unit += std::int64_t{ptx::GridSizeX()} * kWarps) {
    const std::int64_t chunk_group = unit / kChunkStrips;
    const std::int64_t group = chunk_group % params.groups;
    const std::int64_t first_line =
        chunk_group / params.groups * kChunkLines + unit % kChunkStrips * kStripLines;
    std::uint8_t* const to = params.landed + unit * Unit<kZero>::kBytes;
    const std::int64_t line = first_line + lane / 4;
    const std::uint32_t zeros[2] = {LandedZero<kZero>(params, line, group),
                                    LandedZero<kZero>(params, line + 8, group)};
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      const std::int64_t k = group * kGroupK + step * kStepK + lane % 4 * 2;
      std::uint32_t word = 0;
      GEMMD_UNROLL
      for (std::uint32_t j = 0; j < 4; ++j) {
        GEMMD_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
          word |= LandedCode<kZero>(params, line + j % 2 * 8, k + j / 2 * 8 + half, zeros[j % 2])
                  << (16 * half + 4 * j);
        }
      }
      ptx::StoreGlobal(
          reinterpret_cast<std::uint32_t*>(to + step / 4 * 512 + lane * 16 + step % 4 * 4), word);
    }
    // A lane for each line: its pair, and the side that it is on.
    if (lane < kStripLines) {
      const std::uint32_t in_strip = lane / 2 + lane % 2 * 8;
      const std::int64_t of = first_line + in_strip;
      std::uint16_t scale = 0;
      if (of < params.n) {
        scale = ptx::LoadGlobal(params.scales + of * params.scale_line_stride +
                                group * params.scale_group_stride);
      }
      ptx::StoreGlobal(reinterpret_cast<std::uint16_t*>(to + kScalesAt) + lane, scale);
      if constexpr (kZero == ZeroKind::kPlane) {
        ptx::StoreGlobal(to + kZerosAt + lane,
                         static_cast<std::uint8_t>(LandedZero<kZero>(params, of, group)));
      }
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
