// The parameters of a ladder D kernel, and the places in its shared and tensor memory.
#pragma once

#include <cstdint>

#include "kernels/mma/ring.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/swizzle.h"
#include "kernels/ptx/tensor_map.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_steps.h"

namespace gemmd::blackwell_mxfp8 {

// Warps of a block: four that store D, and so reach all lanes of tensor memory, one that loads, one
// that multiplies.
inline constexpr int kStoringWarps = 4;
inline constexpr int kLoadingWarp = 4;
inline constexpr int kMultiplyingWarp = 5;
inline constexpr int kLadderDThreads = 6 * 32;

inline constexpr int kMaxSharedBytes = 232448;  // a block, on sm_100
inline constexpr int kMaxColumns = 512;         // of tensor memory

inline namespace GEMMD_BACKEND {

// A is m x k and B n x k, with scales of blocks of K in tiles of 128 x 4 (base/numbers/scaling.h);
// D is m x n, of f32.
struct LadderDParams {
  ptx::TensorMap a;
  ptx::TensorMap b;
  ptx::TensorMap a_scales;
  ptx::TensorMap b_scales;
  ptx::TensorMap stored;  // D, where TMA stores it; else empty
  ptx::TensorMap half_b;  // of tiles of half the width, where there may be any; else empty
  float* d;
  const float* a_tensor_scale;  // where the format has them
  const float* b_tensor_scale;
  std::int64_t ldd;
  std::int32_t m;
  std::int32_t n;
  std::int32_t k;
  std::uint32_t tiles_m;
  std::uint32_t tiles_n;
  std::uint32_t whole_tiles;       // the first ones; the others are cut in two
  bool is_hilbert;                 // the order of tiles; else along rows
  std::uint32_t instruction;       // its descriptor but for the scales' ids
  std::uint32_t half_instruction;  // of tiles of half the width
  bool is_aligned;                 // each row of D for stores of kStoreFloats
};

// The layout of a step's memory; with TMA's stores it has their buffers.
template <class Step, bool kTensorStores>
struct LadderDLayout {
  // Lines of 128 bytes of K, swizzled; a block has half of the pair's tiles.
  static constexpr int kSpanElements = Step::kFormat == ScaledFormat::kMxfp8 ? 128 : 256;
  static constexpr int kSpans = Step::kTileK / kSpanElements;
  static constexpr std::uint32_t kSpanBytes = 128;
  static constexpr int kElementsPerByte = kSpanElements / 128;
  static constexpr std::uint32_t kALines = Step::kTileM / 2;
  static constexpr std::uint32_t kBLines = Step::kTileN / 2;
  static constexpr std::uint32_t kASpan = kALines * kSpanBytes;
  static constexpr std::uint32_t kBSpan = kBLines * kSpanBytes;
  static constexpr std::uint32_t kABytes = kSpans * kASpan;
  static constexpr std::uint32_t kBBytes = kSpans * kBSpan;
  // Tiles of 128 x 4 scales: of A those of a stage's blocks of K, and of all of the pair's B.
  static constexpr std::uint32_t kScaleTile = 512;
  static constexpr int kBlock = Step::kFormat == ScaledFormat::kNvfp4 ? 16 : 32;
  static constexpr int kSpanTiles = kSpanElements / (4 * kBlock);
  static constexpr int kATiles = kSpans * kSpanTiles;
  static constexpr int kBTiles = Step::kTileN / 128;
  static constexpr std::uint32_t kAScaleBytes = kATiles * kScaleTile;
  static constexpr std::uint32_t kBScaleBytes = kATiles * kBTiles * kScaleTile;
  static constexpr std::uint32_t kStageBytes = kABytes + kBBytes + kAScaleBytes + kBScaleBytes;

  // D in boxes of lines of 64 or 128 bytes, swizzled: chunk c of 16 bytes of line r lies at
  // c XOR (r * chunks / 8) % chunks.
  static constexpr int kBoxColumns = Step::kBoxColumns;
  static constexpr std::uint32_t kBoxChunks = kBoxColumns / 4;
  static constexpr ptx::Swizzle kBoxSwizzle =
      kBoxChunks == 8 ? ptx::Swizzle::k128B : ptx::Swizzle::k64B;
  static_assert(kBoxChunks == 8 || kBoxChunks == 4);
  static constexpr std::uint32_t kBoxBytes = kALines * kBoxColumns * 4;
  static constexpr int kBoxes = kTensorStores ? Step::kBoxes : 0;

  // Besides stages: boxes of D, the mbarriers of accumulators, and the slot of an address.
  static constexpr std::uint32_t kOtherBytes = kBoxes * kBoxBytes + 64;
  static constexpr int kMostStages = 8;
  static constexpr int kStages =
      mma::FittingStages(kMaxSharedBytes - kOtherBytes, kStageBytes, kMostStages);
  static_assert(kStages >= 2, "loads run ahead of products");

  // The swizzled tiles come first, at multiples of a kilobyte.
  static constexpr std::uint32_t kOperands = 0;
  static constexpr std::uint32_t kOperandBytes = kABytes + kBBytes;
  static constexpr std::uint32_t kBox = kStages * kOperandBytes;
  static constexpr std::uint32_t kScales = kBox + kBoxes * kBoxBytes;
  static constexpr std::uint32_t kScaleBytes = kAScaleBytes + kBScaleBytes;
  static_assert(kASpan % 1024 == 0 && kBSpan % 1024 == 0 && kBoxBytes % 1024 == 0);
  // Mbarriers. Those of full stages and of free columns are used in the even block alone, for both.
  static constexpr std::uint32_t kFull = kScales + kStages * kScaleBytes;
  static constexpr std::uint32_t kEmpty = kFull + kStages * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSummed = kEmpty + kStages * ptx::kMbarrierBytes;  // accumulators
  static constexpr std::uint32_t kOwnFree = kSummed + 2 * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedFree = kOwnFree + 2 * ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSlot = kSharedFree + ptx::kMbarrierBytes;
  static constexpr std::uint32_t kSharedBytes = kSlot + 16;
  static_assert(kSharedBytes <= kMaxSharedBytes);

  // Columns of tensor memory: the accumulators, the second one kOverlap columns into the first,
  // then scales. The PTX ISA has copies run before products that follow them, but not behind
  // products before them, so that columns of scales are written again only when the products that
  // read them are known to be complete: with a slot for each stage that is known when the stage is
  // loaded. Where there is no room for so many, the multiplying thread waits.
  static constexpr int kSecond = Step::kTileN - Step::kOverlap;
  static constexpr int kFirstScale = kSecond + Step::kTileN;
  static constexpr int kScaleColumns = 4 * kATiles * (1 + kBTiles);
  static constexpr int kFittingSlots = (kMaxColumns - kFirstScale) / kScaleColumns;
  static constexpr int kSlots =
      kFittingSlots < 1 ? 1 : (kFittingSlots < kStages ? kFittingSlots : kStages);
  static constexpr int kColumns = kFirstScale + kSlots * kScaleColumns;
  static constexpr bool kFits = kColumns <= kMaxColumns;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
