// The layout of shared memory for each tiling: where operands lie in a stage, and how large it is.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/f32/parts.h"
#include "kernels/hopper/f32/tilings.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::f32 {

// K that one accumulation of wgmma sums: a swizzled line of f32, two steps of wgmma.
inline constexpr int kBlockK = 32;
inline constexpr int kSteps = kBlockK / 16;
// A stage holds two such blocks, which halves what waiting for stages costs.
inline constexpr int kStageBlocks = 2;
inline constexpr int kStageK = kStageBlocks * kBlockK;

// Rows, for each block of K. K-major: lines of 32 of K. MN-major: spans of 32 rows, each 32 lines.
inline constexpr int kRowSpan = 32;
inline constexpr int kRowSpanBytes = kBlockK * kSpanBytes;

inline namespace GEMMD_BACKEND {

using ptx::Major;

// Parts of 8 columns and a block of K: 8 lines of 64 bytes for each part, swizzled by 64 bytes,
// as wgmma reads them. The split writes them so, a tile's columns together and then block by
// block, so that what a stage needs is one piece of memory. TMA sees lines of 768 bytes.
inline constexpr int kPartLineBytes = kBlockK * 2;
inline constexpr int kPartAtomBytes = 8 * kPartLineBytes;
inline constexpr int kPartGroupBytes = kParts * kPartAtomBytes;
inline constexpr int kPieceLineBytes = kPartGroupBytes / 2;

template <int kTiling>
struct ProductLayout {
  static constexpr Tiling kValues = kTilings[kTiling];
  static constexpr int kRowGroups = kValues.row_groups;
  static constexpr int kConsumers = kRowGroups * kValues.column_groups;
  static constexpr int kTileRows = kValues.rows();
  static constexpr int kGroupColumns = kValues.group_columns;
  static constexpr int kTileColumns = kValues.columns();
  static constexpr bool kTakesTurns = kValues.takes_turns;
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
  static constexpr int kSums = kGroupColumns / 2;  // of a thread

  static constexpr int kRowBytes = kTileRows * kSpanBytes;  // of a block of K
  static constexpr int kPartBytes = kTileColumns / 8 * kPartGroupBytes;
  static constexpr int kPartOffset = kStageBlocks * kRowBytes;  // in a stage
  static constexpr int kStageBytes = kStageBlocks * (kRowBytes + kPartBytes);
  static constexpr int kPieceLines = kStageBlocks * kPartBytes / kPieceLineBytes;

  // Where sums wait that are finished one by one (common/f32_finish.h).
  static constexpr int kSumBytes = kConsumers * kWarpgroup * kSums * 4;
  static constexpr int kStages =
      mma::FittingStages(hopper::kMaxSharedBytes - kSumBytes, kStageBytes, kValues.max_stages);
  static constexpr int kSumOffset = kStages * kStageBytes;
  static constexpr int kFull = kSumOffset + kSumBytes;
  static constexpr int kEmpty = kFull + kStages * static_cast<int>(ptx::kMbarrierBytes);
  static constexpr int kSharedBytes = kEmpty + kStages * static_cast<int>(ptx::kMbarrierBytes);

  static_assert(kStages >= 2 && kSharedBytes <= hopper::kMaxSharedBytes);
  static_assert(kGroupColumns % 8 == 0 && kStageBytes % hopper::kAtomBytes == 0 &&
                kPieceLines <= 256);
  static_assert(kConsumers <= 2 && (!kTakesTurns || kConsumers == 2));
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
