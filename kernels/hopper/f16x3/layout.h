// The layout of shared memory for each tiling: where operands lie in a stage, and how large it is.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/f16x3/parts.h"
#include "kernels/hopper/f16x3/tilings.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::f16x3 {

// K of a stage, and what one accumulation of wgmma sums: a swizzled line of f16, four steps.
inline constexpr int kStageK = 64;
inline constexpr int kSteps = kStageK / 16;

inline namespace GEMMD_BACKEND {

// Parts of 8 lines and 64 of K: 8 lines of 128 bytes for hi, then for lo, swizzled by 128 bytes, as
// wgmma reads them. The split writes them so, a tile's lines together and then stage by stage, so
// that what a stage needs of an operand is one piece of memory. TMA sees lines of 1 KiB.
inline constexpr int kPartLineBytes = kStageK * 2;
inline constexpr int kPartAtomBytes = 8 * kPartLineBytes;
inline constexpr int kPartGroupBytes = kParts * kPartAtomBytes;
inline constexpr int kPieceLineBytes = 1024;

template <int kTiling>
struct ProductLayout {
  static constexpr Tiling kValues = kTilings[kTiling];
  static constexpr int kRowGroups = kValues.row_groups;
  static constexpr int kConsumers = kRowGroups;
  static constexpr int kTileRows = kValues.rows();
  static constexpr int kTileColumns = kValues.columns();
  static constexpr bool kTakesTurns = kValues.takes_turns();
  static constexpr int kThreads = kWarpgroup * (kConsumers + 1);
  static constexpr int kSums = kTileColumns / 2;  // of a thread
  // The number of them that are finished together (common/f32_finish.h).
  static constexpr int kSumsTogether = kSums > 32 ? kSums / 2 : kSums;

  static constexpr int kRowBytes = kTileRows / 8 * kPartGroupBytes;
  static constexpr int kColumnBytes = kTileColumns / 8 * kPartGroupBytes;
  static constexpr int kColumnOffset = kRowBytes;  // in a stage
  static constexpr int kStageBytes = kRowBytes + kColumnBytes;
  static constexpr int kRowPieceLines = kRowBytes / kPieceLineBytes;
  static constexpr int kColumnPieceLines = kColumnBytes / kPieceLineBytes;

  // Where sums wait that are finished one by one.
  static constexpr int kSumBytes = kConsumers * kWarpgroup * kSumsTogether * 4;
  static constexpr int kStages =
      mma::FittingStages(hopper::kMaxSharedBytes - kSumBytes, kStageBytes, kValues.max_stages);
  static constexpr int kSumOffset = kStages * kStageBytes;
  static constexpr int kFull = kSumOffset + kSumBytes;
  static constexpr int kEmpty = kFull + kStages * static_cast<int>(ptx::kMbarrierBytes);
  static constexpr int kSharedBytes = kEmpty + kStages * static_cast<int>(ptx::kMbarrierBytes);

  static_assert(kStages >= 2 && kSharedBytes <= hopper::kMaxSharedBytes);
  static_assert(kTileColumns % 8 == 0 && kStageBytes % hopper::kAtomBytes == 0 &&
                kRowPieceLines <= 256 && kColumnPieceLines <= 256);
  static_assert(kConsumers <= 2);
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
