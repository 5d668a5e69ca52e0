// The shape of a launch.
#pragma once

#include <cstdint>

namespace gemmd::copy_async {

// The numbers that follow from a step's tile (served_step.h).
template <class Step>
struct BlockShape {
  static constexpr int kWarpM = Step::kTileM / Step::kWarpsM;
  static constexpr int kWarpN = Step::kTileN / Step::kWarpsN;
  static constexpr int kThreads = 32 * Step::kWarpsM * Step::kWarpsN;
  // One stage: a tile of A and one of B.
  static constexpr std::uint32_t kStageBytes = (Step::kTileM + Step::kTileN) * Step::kTileK * 2;
  // Shared memory of a block: its stages, which the epilogue reuses for the tile of D.
  static constexpr std::uint32_t kStagesBytes = Step::kStages * kStageBytes;
  static constexpr std::uint32_t kOutputBytes = Step::kTileM * Step::kTileN * 2;
  static constexpr std::uint32_t kSharedBytes =
      kStagesBytes > kOutputBytes ? kStagesBytes : kOutputBytes;
};

}  // namespace gemmd::copy_async
