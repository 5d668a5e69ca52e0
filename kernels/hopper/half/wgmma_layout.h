// The numbers that follow from a tiling and the operands' majors: sizes of boxes, stages and shared
// memory. Elements have 16 bits.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/half/tilings.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::half {

inline constexpr int kTileK = 64;  // elements of K in a stage
inline constexpr int kSpan = 64;   // elements of a swizzled line, 128 bytes

inline namespace GEMMD_BACKEND {

using ptx::Major;

// An operand tile in a stage.
//   K-major   a row of the tile a line of 64 elements of K. The `shares` blocks of a cluster
//             that need the same tile load boxes of 64 x (lines / shares), rounded up to 8.
//   MN-major  spans of 64 rows of the tile, each 64 lines of K; a block loads 64 / shares
//             lines of every span.
template <Major kMajor, int kLines, int kShares>
struct OperandTile {
  static constexpr bool kIsKMajor = kMajor == Major::kK;
  static constexpr int kSpans = (kLines + kSpan - 1) / kSpan;
  static constexpr int kBytes = (kIsKMajor ? kLines : kSpans * kTileK) * kSpanBytes;
  static constexpr int kBoxLines = kIsKMajor ? (kLines / kShares + 7) / 8 * 8 : kTileK / kShares;
  // From one block's box to the next one's, in lines; boxes overlap where 8 does not divide.
  static constexpr int kShareStep = kIsKMajor ? kLines - kBoxLines : kBoxLines;
  static constexpr int kLoadedBytes = kIsKMajor ? kShares * kBoxLines * kSpanBytes : kBytes;
  static constexpr int kSpanBlock = kTileK * kSpanBytes;  // bytes of a span of MN-major
  // For descriptors: bytes to the next 16 of K, and between spans of MN-major.
  static constexpr int kStepBytes = kIsKMajor ? 32 : 16 * kSpanBytes;
  static constexpr int kLeadingBytes = kIsKMajor ? 16 : kSpanBlock;
  static_assert(kShares <= 2 && (kShareStep * kSpanBytes) % kAtomBytes == 0);
};

template <int kTiling, Major kRowMajor, Major kColumnMajor>
struct WgmmaLayout {
  static constexpr Tiling kValues = kTilings[kTiling];
  static constexpr int kTileM = kValues.tile_m;
  static constexpr int kTileN = kValues.tile_n;
  static constexpr int kClusterM = kValues.cluster_m;
  static constexpr int kClusterN = kValues.cluster_n;
  static constexpr int kCluster = kClusterM * kClusterN;
  static constexpr int kConsumers = kValues.consumers;
  static constexpr bool kIsPingPong = kValues.is_ping_pong;
  static constexpr bool kIsStaggered = kValues.is_staggered;
  static constexpr bool kReusesStages = kValues.reuses_stages;
  static constexpr bool kFinishesRowsFirst = kValues.finishes_rows_first;
  // D by 16-byte stores of the threads, not TMA: lines of any pitch, and quicker in short launches.
  static constexpr bool kStoresByUnit = kConsumers == 1;
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);

  using Rows = OperandTile<kRowMajor, kTileM, kClusterN>;
  using Columns = OperandTile<kColumnMajor, kTileN, kClusterM>;
  static constexpr int kStageBytes = Rows::kBytes + Columns::kBytes;
  static constexpr int kLoadedBytes = Rows::kLoadedBytes + Columns::kLoadedBytes;

  // Rows of a warpgroup, and its products of 64 rows.
  static constexpr int kGroupRows = kIsPingPong ? kTileM : kTileM / kConsumers;
  static constexpr int kRowBlocks = kGroupRows / 64;

  // D leaves in boxes: of 16 rows a warp.
  static constexpr int kBoxColumns = kTileN % 64 == 0 ? 64 : kTileN <= 64 ? kTileN : kTileN / 2;
  static constexpr int kBoxes = kTileN / kBoxColumns;
  static constexpr bool kIsBoxSwizzled = kBoxColumns == 64;
  static constexpr int kBoxBytes = (64 * kBoxColumns * 2 + 1023) / 1024 * 1024;
  static constexpr int kWarpBoxBytes = 16 * kBoxColumns * 2;
  static constexpr int kStoreBuffers = kValues.store_buffers;
  static constexpr int kOutputBytes = kConsumers * kStoreBuffers * kBoxBytes;
  // Columns of f32 that pass through a warp's box at a time (wgmma_epilogue.h).
  static constexpr int kEpilogueColumns = kBoxColumns == 64 ? 32 : 16;

  static constexpr int kStages =
      mma::FittingStages(kMaxSharedBytes - kOutputBytes, kStageBytes, kValues.max_stages);
  static constexpr int kOutput = kStages * kStageBytes;  // offset in shared memory
  static constexpr int kFull = kOutput + kOutputBytes;
  static constexpr int kEmpty = kFull + kStages * static_cast<int>(ptx::kMbarrierBytes);
  static constexpr int kSharedBytes = kEmpty + kStages * static_cast<int>(ptx::kMbarrierBytes);

  static_assert(kStages >= 2 && kSharedBytes <= kMaxSharedBytes);
  static_assert(kStageBytes % kAtomBytes == 0 && kBoxBytes % 128 == 0 && kWarpBoxBytes % 128 == 0);
  static_assert(kGroupRows % 64 == 0 && kTileN % 16 == 0 && kBoxColumns % 8 == 0);
  static_assert((kRowBlocks * kBoxes) % kStoreBuffers == 0);
  static_assert(!kReusesStages || (kBoxColumns == 64 && kBoxes <= kStages && !kIsPingPong));
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
