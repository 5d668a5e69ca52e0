// Layout of the f64 product, by tiling and the operands' majors: operands in a stage, stages in
// shared memory, warps, and registers.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/f64/tilings.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::f64 {

inline constexpr std::uint32_t kProducerThreads = hopper::kWarpgroup;

// Shared memory is lines of 16 elements, 128 bytes, whose 16-byte chunks trade places as TMA's
// swizzle of 128 bytes has it: chunk c of line r lies at c XOR r % 8.
inline constexpr int kSpan = 16;

inline namespace GEMMD_BACKEND {

using ptx::Major;

// An operand's tile in a stage, as boxes of such lines.
//   K-major   a box for each 16 of K: a line of the operand is a line.
//   MN-major  a box for each 16 lines of the operand: an element of K is a line.
template <Major kMajor_, int kLines, int kStageK>
struct OperandTile {
  static constexpr Major kMajor = kMajor_;
  static constexpr bool kIsKMajor = kMajor == Major::kK;
  static constexpr int kBoxes = kIsKMajor ? kStageK / kSpan : (kLines + kSpan - 1) / kSpan;
  static constexpr int kBoxLines = kIsKMajor ? kLines : kStageK;
  static constexpr int kBoxBytes = kBoxLines * kSpanBytes;
  static constexpr int kBytes = kBoxes * kBoxBytes;
  // Fewer lines than a box has (line_order.h).
  static constexpr bool kIsNarrow = !kIsKMajor && kLines < kSpan;
  static_assert(kBoxLines <= 256 && kBoxBytes % 1024 == 0);
};

template <int kTiling, Major kRowMajor, Major kColumnMajor>
struct ProductLayout {
  static constexpr Tiling kValues = kTilings[kTiling];
  static constexpr int kTileRows = kValues.rows();
  static constexpr int kTileColumns = kValues.columns();
  static constexpr int kStageK = kValues.stage_k;

  using Rows = OperandTile<kRowMajor, kTileRows, kStageK>;
  using Columns = OperandTile<kColumnMajor, kTileColumns, kStageK>;
  static constexpr int kColumnOffset = Rows::kBytes;  // in a stage
  static constexpr int kStageBytes = Rows::kBytes + Columns::kBytes;

  // The warps that multiply, and what each has of the tile: blocks of 16 rows and of 8 columns.
  static constexpr int kColumnWarps = kValues.column_warps;
  static constexpr int kWarpRows = kValues.warp_rows;
  static constexpr int kWarpColumns = kValues.warp_columns;
  static constexpr int kRowBlocks = kWarpRows / 16;
  static constexpr int kColumnBlocks = kWarpColumns / 8;
  static constexpr int kSums = 4 * kRowBlocks * kColumnBlocks;  // of a thread
  static constexpr int kConsumerWarps = kValues.warps();
  static constexpr int kThreads = static_cast<int>(kProducerThreads) + 32 * kConsumerWarps;

  // Steps of K in a stage. Fragments of the next are loaded while one is multiplied where there
  // are registers for two.
  static constexpr int kStepK = kValues.step_k;
  static constexpr int kSteps = kStageK / kStepK;
  static constexpr int kFragment = (kWarpRows + kWarpColumns) * kStepK / 32;  // elements
  static constexpr bool kLoadsAhead = kSteps % 2 == 0 && 2 * (kSums + 2 * kFragment) <= 224;

  static constexpr int kStages =
      mma::FittingStages(hopper::kMaxSharedBytes, kStageBytes, kValues.max_stages);
  static constexpr int kFull = kStages * kStageBytes;
  static constexpr int kEmpty = kFull + kStages * static_cast<int>(ptx::kMbarrierBytes);
  static constexpr int kSharedBytes = kEmpty + kStages * static_cast<int>(ptx::kMbarrierBytes);

  // Where what the launch gives each thread is not enough for a consumer, the producer's warps
  // give some of theirs. A consumer wants sums, fragments, and 40 for places of elements, the
  // ring and the rest.
  static constexpr int kMostRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kLaunchRegisters = kMostRegisters < 256 ? kMostRegisters : 256;
  static constexpr int kWantedRegisters =
      (2 * (kSums + (kLoadsAhead ? 2 : 1) * kFragment) + 40) / 8 * 8;
  static constexpr bool kMovesRegisters = kWantedRegisters > kLaunchRegisters;
  static constexpr int kConsumerRegisters = kWantedRegisters < 240 ? kWantedRegisters : 240;
  static constexpr int kProducerRegisters =
      (kThreads * kLaunchRegisters / 32 - kConsumerWarps * kConsumerRegisters) / 4;

  static_assert(kStages >= 2 && kSharedBytes <= hopper::kMaxSharedBytes);
  static_assert(kWarpRows % 16 == 0 && kWarpColumns % 8 == 0 && kStageK % kStepK == 0);
  static_assert(kWarpColumns % kSpan == 0 || kColumnWarps == 1);
  static_assert(!kMovesRegisters || (kConsumerWarps % 4 == 0 && kProducerRegisters % 8 == 0 &&
                                     kProducerRegisters >= 24));
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
