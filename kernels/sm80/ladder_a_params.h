// The shape of a ladder A launch.
#pragma once

#include <cstdint>

namespace gemmd::sm80 {

// A block computes kTileM x kTileN of D, kTileK of K at a time, with a grid of kWarpsM x
// kWarpsN warps.
inline constexpr int kTileM = 256;
inline constexpr int kTileN = 128;
inline constexpr int kTileK = 64;
inline constexpr int kWarpsM = 4;
inline constexpr int kWarpsN = 2;
inline constexpr int kThreads = 32 * kWarpsM * kWarpsN;
inline constexpr int kBlocksPerMultiprocessor = 1;

// Bytes of one stage: a tile of A and one of B.
inline constexpr std::uint32_t kStageBytes = (kTileM + kTileN) * kTileK * 2;

// Shared memory of a block: its stages, which the epilogue reuses for the tile of D.
constexpr std::uint32_t LadderASharedBytes(int stages) {
  const std::uint32_t stage_bytes = static_cast<std::uint32_t>(stages) * kStageBytes;
  const std::uint32_t output_bytes = kTileM * kTileN * 2;
  return stage_bytes > output_bytes ? stage_bytes : output_bytes;
}

}  // namespace gemmd::sm80
