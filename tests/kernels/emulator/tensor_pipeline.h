// A small kernel for the checker's own tests: TMA loads through full and empty mbarriers,
// ldmatrix and mma.sync, a TMA store. One template parameter plants a fault.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/mma_sync.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::testing {

enum class PipelineFault : int {
  kNone,
  kWrongSwizzle,
  kMissingFullWait,
  kWrongParity,
  kTooFewBytes,
  kTooManyBytes,
  kMissingEmptyWait,
  kMissingWarpBarrier,
  kMissingInitFence,
  kMissingInitBarrier,
  kUnfencedStore,
  kMissingStoreBarrier,
  kMissingStoreWait,
  kTooManyArrivals,
  kTooFewArrivals,
};

inline namespace GEMMD_BACKEND {

// D = A * transposed B, bf16, in tiles of 64x64 with rows of 64 elements of K: A is m x k,
// B is n x k. Warp 4 loads; warps 0 to 3 multiply, 32x32 each.
struct TensorPipeline {
  static constexpr int kTile = 64;
  static constexpr int kDepth = 64;
  static constexpr int kStages = 2;
  static constexpr std::uint32_t kThreads = 160;
  static constexpr std::uint32_t kTileBytes = kTile * 128;
  static constexpr std::uint32_t kStageBytes = 2 * kTileBytes;
  static constexpr std::uint32_t kOutput = kStages * kStageBytes;
  static constexpr std::uint32_t kFull = kOutput + kTileBytes;
  static constexpr std::uint32_t kEmpty = kFull + kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = kEmpty + kStages * ptx::kMbarrierBytes;
};

struct TensorPipelineParams {
  ptx::TensorMap a;
  ptx::TensorMap b;
  ptx::TensorMap d;
  std::int32_t k_tiles;
};

template <PipelineFault kFault>
GEMMD_DEVICE void ProduceTiles(const TensorPipelineParams& params, ptx::SharedAddress shared,
                               std::int32_t row, std::int32_t column) {
  using P = TensorPipeline;
  for (int tile = 0; tile < params.k_tiles; ++tile) {
    const std::uint32_t stage = tile % P::kStages;
    const std::uint32_t parity = tile / P::kStages % 2;
    const ptx::SharedAddress to = shared + stage * P::kStageBytes;
    const ptx::SharedAddress full = shared + P::kFull + stage * ptx::kMbarrierBytes;
    const ptx::SharedAddress empty = shared + P::kEmpty + stage * ptx::kMbarrierBytes;
    if (kFault != PipelineFault::kMissingEmptyWait) ptx::MbarrierWait(empty, parity ^ 1);
    std::uint32_t bytes = P::kStageBytes;
    if (kFault == PipelineFault::kTooFewBytes) bytes /= 2;
    if (kFault == PipelineFault::kTooManyBytes) bytes += 16;
    ptx::MbarrierArriveExpect(full, bytes);
    ptx::TensorLoad2D(to, &params.a, tile * P::kDepth, row, full);
    ptx::TensorLoad2D(to + P::kTileBytes, &params.b, tile * P::kDepth, column, full);
  }
}

// 16-byte chunk `chunk` of 128-byte row `row`, swizzled as TMA leaves it.
template <PipelineFault kFault>
GEMMD_DEVICE std::uint32_t ChunkAt(std::uint32_t row, std::uint32_t chunk) {
  if (kFault == PipelineFault::kWrongSwizzle) return row * 128 + chunk * 16;
  return row * 128 + ((chunk ^ (row % 8)) * 16);
}

template <PipelineFault kFault>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(160, 1)
    TensorPipelineKernel(const GEMMD_GRID_CONSTANT TensorPipelineParams params) {
  using P = TensorPipeline;
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t lane = thread % 32;
  const std::uint32_t warp = thread / 32;
  const ptx::SharedAddress shared = ptx::SharedBase();
  const auto row = static_cast<std::int32_t>(ptx::BlockIndexY() * P::kTile);
  const auto column = static_cast<std::int32_t>(ptx::BlockIndexX() * P::kTile);
  if (thread == 0) {
    std::uint32_t arrivals = 4;
    if (kFault == PipelineFault::kTooManyArrivals) arrivals = 3;
    if (kFault == PipelineFault::kTooFewArrivals) arrivals = 5;
    for (int stage = 0; stage < P::kStages; ++stage) {
      ptx::MbarrierInit(shared + P::kFull + stage * ptx::kMbarrierBytes, 1);
      ptx::MbarrierInit(shared + P::kEmpty + stage * ptx::kMbarrierBytes, arrivals);
    }
    if (kFault != PipelineFault::kMissingInitFence) ptx::FenceMbarrierInit();
  }
  if (kFault != PipelineFault::kMissingInitBarrier) ptx::SyncThreads();
  if (warp == 4) {
    if (ptx::ElectOne()) ProduceTiles<kFault>(params, shared, row, column);
    return;
  }
  const std::uint32_t warp_row = warp % 2 * 32;
  const std::uint32_t warp_column = warp / 2 * 32;
  float sum[2][4][4] = {};
  for (int tile = 0; tile < params.k_tiles; ++tile) {
    const std::uint32_t stage = tile % P::kStages;
    std::uint32_t parity = tile / P::kStages % 2;
    if (kFault == PipelineFault::kWrongParity) parity ^= 1;
    const ptx::SharedAddress a_tile = shared + stage * P::kStageBytes;
    const ptx::SharedAddress b_tile = a_tile + P::kTileBytes;
    if (kFault != PipelineFault::kMissingFullWait) {
      ptx::MbarrierWait(shared + P::kFull + stage * ptx::kMbarrierBytes, parity);
    }
    for (std::uint32_t step = 0; step < 4; ++step) {
      std::uint32_t a[2][4];
      std::uint32_t b[2][4];
      for (std::uint32_t i = 0; i < 2; ++i) {
        ptx::LoadMatrix4(
            a[i], a_tile + ChunkAt<kFault>(warp_row + i * 16 + lane % 16, step * 2 + lane / 16));
        // Two 16x8 tiles of B: lanes 0 to 15 address the first.
        ptx::LoadMatrix4(b[i],
                         b_tile + ChunkAt<kFault>(warp_column + i * 16 + lane / 16 * 8 + lane % 8,
                                                  step * 2 + lane / 8 % 2));
      }
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
          ptx::MmaBf16(sum[i][j], a[i], pair);
        }
      }
    }
    if (kFault != PipelineFault::kMissingWarpBarrier) ptx::SyncWarp();
    if (lane == 0) ptx::MbarrierArrive(shared + P::kEmpty + stage * ptx::kMbarrierBytes);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int half = 0; half < 2; ++half) {
        const std::uint32_t at_row = warp_row + i * 16 + lane / 4 + 8 * half;
        const std::uint32_t at_column = warp_column + j * 8 + lane % 4 * 2;
        ptx::StoreShared(shared + P::kOutput + at_row * 128 + at_column * 2,
                         ptx::PackBf16(sum[i][j][2 * half], sum[i][j][2 * half + 1]));
      }
    }
  }
  if (kFault != PipelineFault::kUnfencedStore) ptx::FenceProxyAsync();
  if (kFault != PipelineFault::kMissingStoreBarrier) ptx::NamedBarrierSync(1, 128);
  if (thread == 0) {
    ptx::TensorStore2D(&params.d, shared + P::kOutput, column, row);
    ptx::BulkCommit();
    if (kFault != PipelineFault::kMissingStoreWait) ptx::BulkWaitRead<0>();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::testing
