// What a ladder B kernel is launched with, and the shape of its launch.
#pragma once

#include <cstdint>

#include "kernels/mma/half_gemm_params.h"
#include "kernels/mma/tile_layout.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::sm120 {

// A block computes kTileM x kTileN of D with a grid of kWarpsM x kWarpsN warps.
inline constexpr int kTileM = 128;
inline constexpr int kTileN = 128;
inline constexpr int kWarpsM = 2;
inline constexpr int kWarpsN = 4;
inline constexpr int kWarps = kWarpsM * kWarpsN;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kWarpM = kTileM / kWarpsM;
inline constexpr int kWarpN = kTileN / kWarpsN;

// What a block of sm_120 may have.
inline constexpr std::uint32_t kSharedBytesLimit = 99 * 1024;

inline namespace GEMMD_BACKEND {

// How tiles lie in shared memory. Those of A and B are as TMA leaves them, boxes of 64 or 128
// bytes by rows, whoever copies them.
template <class Step>
struct LadderBLayout {
  using A = mma::TileLayout<kTileM, Step::kTileK, true>;
  using B = mma::PanelLayout<Step::kTileK, kTileN>;
  using D = mma::TileLayout<kTileM, kTileN, true>;      // stored by threads
  using WarpD = mma::TileLayout<kWarpM, kWarpN, true>;  // one box of a TMA store

  static constexpr std::uint32_t kStageBytes = A::kBytes + B::kBytes;
  static constexpr std::uint32_t kStagesBytes = Step::kStages * kStageBytes;
  // Behind the stages, which the epilogue reuses.
  static constexpr std::uint32_t kFull = kStagesBytes;
  static constexpr std::uint32_t kEmpty = kFull + Step::kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kEnd = kEmpty + Step::kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = Step::kTensorLoads ? kEnd : kStagesBytes;
  static_assert(kSharedBytes * Step::kBlocksPerMultiprocessor <= kSharedBytesLimit);
  static_assert(D::kBytes <= kStagesBytes && kWarps * WarpD::kBytes <= kStagesBytes);
};

// With the same matrices as TMA sees them; maps that a step does not use are empty.
struct LadderBParams {
  mma::HalfGemmParams gemm;
  ptx::TensorMap a;
  ptx::TensorMap b;
  ptx::TensorMap d;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120
