// The MXFP8 kernel on ladder B's pipeline as values: its tile, its shared memory, its parameters.
#pragma once

#include <cstdint>

#include "kernels/mma/tile_layout.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::sm120_mxfp8 {

// A block computes kTileM x kTileN of D with warps of kWarpM rows, as ladder B's do.
inline constexpr int kTileM = 128;
inline constexpr int kTileN = 128;
inline constexpr int kWarpM = 64;

// The shared memory that a block of sm_120 may have.
inline constexpr std::uint32_t kSharedBytesLimit = 99 * 1024;

// tma_r_64's block: 8 warps of 64x32, tiles of K in lines of 128 bytes, one block on a
// multiprocessor.
struct Mx {
  static constexpr const char* kName = "sm120/mx";
  static constexpr const char* kIdea =
      "MXFP8 by block-scaled mma.sync, loads by TMA, fragments one step ahead";
  static constexpr int kTileK = 128;
  static constexpr int kStages = 2;
  static constexpr int kWarpN = 32;
  static constexpr int kBlocksPerMultiprocessor = 1;
  static constexpr int kRasterGroup = 8;
};

inline namespace GEMMD_BACKEND {

// A is m x k and B n x k, with E8M0 scales of 32 of K in tiles of 128 x 4 (base/numbers/scaling.h);
// D is m x n, of f32.
struct MxParams {
  ptx::TensorMap a;
  ptx::TensorMap b;
  ptx::TensorMap a_scales;
  ptx::TensorMap b_scales;
  float* d;
  std::int64_t ldd;
  std::int32_t m;
  std::int32_t n;
  std::int32_t k;
  std::uint32_t tiles_m;
  std::uint32_t tiles_n;
  bool is_aligned;  // each row of D for stores of 8 bytes
};

struct MxLayout {
  static constexpr int kWarpsN = kTileN / Mx::kWarpN;
  static constexpr int kWarps = kTileM / kWarpM * kWarpsN;
  static constexpr int kThreads = 32 * kWarps;

  // Lines of 128 of K, swizzled; two elements count as one of 16 bits.
  using A = mma::TileLayout<kTileM, Mx::kTileK / 2, true>;
  using B = mma::TileLayout<kTileN, Mx::kTileK / 2, true>;
  // A tile of 128 x 4 scales of each.
  static constexpr std::uint32_t kScaleTile = 512;
  static constexpr std::uint32_t kAScales = A::kBytes + B::kBytes;
  static constexpr std::uint32_t kBScales = kAScales + kScaleTile;

  static constexpr int kStages = Mx::kStages;
  static constexpr std::uint32_t kStageBytes = kBScales + kScaleTile;
  static_assert(kStageBytes % 1024 == 0, "swizzled tiles start at multiples of a kilobyte");
  static constexpr std::uint32_t kFull = kStages * kStageBytes;
  static constexpr std::uint32_t kEmpty = kFull;  // stages are given back behind a barrier
  static constexpr std::uint32_t kSharedBytes = kFull + kStages * ptx::kMbarrierBytes;
  static_assert(kSharedBytes * Mx::kBlocksPerMultiprocessor <= kSharedBytesLimit);
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm120_mxfp8
