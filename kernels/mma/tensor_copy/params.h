// The parameters of the kernel, and the shape of its launch.
#pragma once

#include <cstdint>

#include "kernels/mma/half_gemm_params.h"
#include "kernels/mma/tile_layout.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::tensor_copy {

// A block computes kTileM x kTileN of D with warps of kWarpM rows.
inline constexpr int kTileM = 128;
inline constexpr int kTileN = 128;
inline constexpr int kWarpM = 64;

// The shared memory that a block of sm_120 may have.
inline constexpr std::uint32_t kSharedBytesLimit = 99 * 1024;

inline namespace GEMMD_BACKEND {

// Named barriers: one for each box that two warps fill. Number 0 is the whole block's.
inline constexpr std::uint32_t kFirstBox = 1;

// A block's warps, and how tiles lie in shared memory. Those of A and B are as TMA leaves them,
// boxes of 64 or 128 bytes by rows, whoever copies them.
template <class Step>
struct BlockLayout {
  static constexpr int kWarpsN = kTileN / Step::kWarpN;  // beside each other
  static constexpr int kWarps = kTileM / kWarpM * kWarpsN;
  static constexpr int kThreads = 32 * kWarps;

  using A = mma::TileLayout<kTileM, Step::kTileK, true>;
  using B = mma::PanelLayout<Step::kTileK, kTileN>;
  using D = mma::TileLayout<kTileM, kTileN, true>;  // stored by threads
  static constexpr int kBoxWarps = Step::kBoxWarps > 0 ? Step::kBoxWarps : 1;
  using Box = mma::TileLayout<kWarpM, Step::kWarpN * kBoxWarps, true>;  // of D, stored by TMA

  static constexpr std::uint32_t kStageBytes = A::kBytes + B::kBytes;
  static constexpr std::uint32_t kStagesBytes = Step::kStages * kStageBytes;
  // Behind the stages, which the epilogue reuses.
  static constexpr std::uint32_t kFull = kStagesBytes;
  static constexpr std::uint32_t kEmpty = kFull + Step::kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kEnd = kEmpty + Step::kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = Step::kTensorLoads ? kEnd : kStagesBytes;
  static_assert(kSharedBytes * Step::kBlocksPerMultiprocessor <= kSharedBytesLimit);
  static_assert(D::kBytes <= kStagesBytes && kWarps / kBoxWarps * Box::kBytes <= kStagesBytes);
};

// With the same matrices as TMA sees them; maps that a step does not use are empty.
struct Params {
  mma::HalfGemmParams gemm;
  ptx::TensorMap a;
  ptx::TensorMap b;
  ptx::TensorMap d;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
