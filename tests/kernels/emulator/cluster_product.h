// A small kernel for the checker's own tests: a cluster of two blocks, B multicast to
// both, wgmma. One template parameter plants a fault.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::testing {

enum class ClusterFault : int {
  kNone,
  kMissingWgmmaWait,
  kMissingWgmmaFence,
  kWrongDescriptor,
  kEarlyRelease,
  kLocalReleaseOnly,
  kMissingStartBarrier,
  kMissingEndBarrier,
  kMissingInitFence,
  kDivergedWarpgroup,
};

inline namespace GEMMD_BACKEND {

// D = A * transposed B in f32; A is m x k, B is n x k, bf16. The two blocks of a cluster
// compute 64x64 tiles one below the other, and each loads half of the B they share.
struct ClusterProduct {
  static constexpr int kTile = 64;
  static constexpr int kStages = 3;
  static constexpr std::uint32_t kThreads = 160;
  static constexpr std::uint32_t kTileBytes = kTile * 128;
  static constexpr std::uint32_t kStageBytes = 2 * kTileBytes;
  static constexpr std::uint32_t kFull = kStages * kStageBytes;
  static constexpr std::uint32_t kEmpty = kFull + kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = kEmpty + kStages * ptx::kMbarrierBytes;
};

struct ClusterProductParams {
  ptx::TensorMap a;  // boxes of 64 rows
  ptx::TensorMap b;  // boxes of 32 rows
  float* d;          // m x n
  std::int32_t m;
  std::int32_t n;
  std::int32_t k_tiles;
};

template <ClusterFault kFault>
GEMMD_DEVICE void ProduceClusterTiles(const ClusterProductParams& params, ptx::SharedAddress shared,
                                      std::int32_t row, std::int32_t column) {
  using P = ClusterProduct;
  const std::uint32_t rank = ptx::RankInCluster();
  for (int tile = 0; tile < params.k_tiles; ++tile) {
    const std::uint32_t stage = tile % P::kStages;
    const std::uint32_t parity = tile / P::kStages % 2;
    const ptx::SharedAddress to = shared + stage * P::kStageBytes;
    const ptx::SharedAddress full = shared + P::kFull + stage * ptx::kMbarrierBytes;
    ptx::MbarrierWait(shared + P::kEmpty + stage * ptx::kMbarrierBytes, parity ^ 1);
    ptx::MbarrierArriveExpect(full, P::kStageBytes);
    ptx::TensorLoad2D(to, &params.a, tile * 64, row, full);
    ptx::TensorLoad2DMulticast(to + P::kTileBytes + rank * P::kTileBytes / 2, &params.b, tile * 64,
                               column + static_cast<std::int32_t>(rank) * 32, full, 3);
  }
}

template <ClusterFault kFault>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(160, 1)
    ClusterProductKernel(const GEMMD_GRID_CONSTANT ClusterProductParams params) {
  using P = ClusterProduct;
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t lane = thread % 32;
  const std::uint32_t warp = thread / 32;
  const ptx::SharedAddress shared = ptx::SharedBase();
  const auto row = static_cast<std::int32_t>(ptx::BlockIndexX() * P::kTile);
  const auto column = static_cast<std::int32_t>(ptx::BlockIndexY() * P::kTile);
  if (thread == 0) {
    for (int stage = 0; stage < P::kStages; ++stage) {
      ptx::MbarrierInit(shared + P::kFull + stage * ptx::kMbarrierBytes, 1);
      // Four warps of each block release a stage; with the fault, of this block alone.
      ptx::MbarrierInit(shared + P::kEmpty + stage * ptx::kMbarrierBytes,
                        kFault == ClusterFault::kLocalReleaseOnly ? 4 : 8);
    }
    if (kFault != ClusterFault::kMissingInitFence) ptx::FenceMbarrierInit();
  }
  if (kFault == ClusterFault::kMissingStartBarrier) {
    ptx::SyncThreads();
  } else {
    ptx::ClusterSync();
  }
  if (warp == 4) {
    if (ptx::ElectOne()) ProduceClusterTiles<kFault>(params, shared, row, column);
  } else {
    float sum[32];
    for (float& each : sum) each = 0;
    for (int tile = 0; tile < params.k_tiles; ++tile) {
      const std::uint32_t stage = tile % P::kStages;
      const ptx::SharedAddress a_tile = shared + stage * P::kStageBytes;
      const ptx::SharedAddress b_tile = a_tile + P::kTileBytes;
      ptx::MbarrierWait(shared + P::kFull + stage * ptx::kMbarrierBytes, tile / P::kStages % 2);
      if (kFault != ClusterFault::kMissingWgmmaFence) ptx::WgmmaFence();
      if (kFault == ClusterFault::kDivergedWarpgroup && warp == 2) ptx::WgmmaCommit();
      GEMMD_UNROLL
      for (int step = 0; step < 4; ++step) {
        const std::uint64_t a = ptx::MakeWgmmaDescriptor128B(a_tile + step * 32);
        std::uint64_t b = ptx::MakeWgmmaDescriptor128B(b_tile + step * 32);
        if (kFault == ClusterFault::kWrongDescriptor) {
          b = ptx::MakeWgmmaDescriptor(b_tile + step * 32, 16, 512, ptx::Swizzle::k128B);
        }
        ptx::Wgmma<ptx::WgmmaType::kBf16, 64>(sum, a, b, true);
      }
      ptx::WgmmaCommit();
      if (kFault != ClusterFault::kEarlyRelease && kFault != ClusterFault::kMissingWgmmaWait) {
        ptx::WgmmaWait<0>();
      }
      ptx::SyncWarp();
      const ptx::SharedAddress empty = shared + P::kEmpty + stage * ptx::kMbarrierBytes;
      if (kFault == ClusterFault::kLocalReleaseOnly) {
        if (lane == 0) ptx::MbarrierArrive(empty);
      } else if (lane < 2) {
        ptx::MbarrierArriveRemote(ptx::MapShared(empty, lane));
      }
    }
    if (kFault != ClusterFault::kMissingWgmmaWait) ptx::WgmmaWait<0>();
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::int32_t at_row =
          row + static_cast<std::int32_t>(warp * 16 + lane / 4 + i / 2 % 2 * 8);
      const std::int32_t at_column =
          column + static_cast<std::int32_t>(i / 4 * 8 + lane % 4 * 2 + i % 2);
      if (at_row < params.m && at_column < params.n) {
        ptx::StoreGlobal(params.d + at_row * params.n + at_column, sum[i]);
      }
    }
  }
  if (kFault != ClusterFault::kMissingEndBarrier) ptx::ClusterSync();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::testing
