// The warp of a ladder D pair that multiplies.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tcgen05.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_tiles.h"
#include "kernels/workshop/blackwell_mxfp8/phases.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

// One thread of the even block. Tiles take the two accumulators in turn: while one is stored the
// other one is summed. Columns that both share are stored first, and are all that the next tile
// waits for.
template <class Step, bool kTensorStores>
class LadderDProducts {
 public:
  GEMMD_DEVICE LadderDProducts(const LadderDParams& params, const PairPlace& place)
      : params_(params),
        place_(place),
        full_(place.shared + Layout::kFull, 0),
        scales_free_(place.shared + Layout::kEmpty, 0),
        summed_(place.shared + Layout::kSummed, 0),
        own_free_(place.shared + Layout::kOwnFree, 1),
        shared_free_(place.shared + Layout::kSharedFree, 1) {}

  GEMMD_DEVICE void Run() {
    for (PairTiles<Step> tiles(params_, place_); !tiles.Done(); tiles.Next()) {
      const bool is_half = tiles.Get().is_half;
      WaitForAccumulator();
      for (std::int32_t k = 0; k < params_.k; k += Step::kTileK) MultiplyStage(is_half, k > 0);
      ptx::Tcgen05CommitMulticast<2>(summed_.address(), kBothBlocks);
      summed_.Next();
    }
  }

 private:
  using Layout = LadderDLayout<Step, kTensorStores>;
  static constexpr std::uint32_t kBothBlocks = 3;
  static constexpr auto kKind =
      Step::kFormat == ScaledFormat::kMxfp8   ? ptx::Tcgen05ScaledKind::kMxf8f6f4
      : Step::kFormat == ScaledFormat::kMxfp4 ? ptx::Tcgen05ScaledKind::kMxf4
                                              : ptx::Tcgen05ScaledKind::kMxf4nvf4;
  // A line has four products of 32 bytes, whose scales fill one word or more.
  static constexpr int kTileSteps = 4 / Layout::kSpanTiles;
  static constexpr int kStepScales = 4 / kTileSteps;

  // Both are free before they are first used. Where they share columns, the storing warps have
  // loaded all of the tile that had this accumulator before they give back the next tile's shared
  // columns. The fence that follows each stage's wait puts products behind these waits, too.
  GEMMD_DEVICE void WaitForAccumulator() {
    if constexpr (Step::kOverlap > 0) {
      ptx::MbarrierWait(shared_free_.address(), shared_free_.parity());
      shared_free_.Next();
    } else {
      ptx::MbarrierWait(own_free_.address(), own_free_.parity());
      own_free_.Next();
    }
  }

  // Where there are fewer slots of scales than stages, the next one is free once the products of
  // the stage that had it last are complete.
  GEMMD_DEVICE void WaitForSlot() {
    if constexpr (Layout::kSlots < Layout::kStages) {
      if (stages_ >= Layout::kSlots) {
        ptx::MbarrierWait(scales_free_.address(), scales_free_.parity());
        scales_free_.Next();
      }
      ++stages_;
    }
  }

  GEMMD_DEVICE void MultiplyStage(bool is_half, bool accumulate) {
    ptx::MbarrierWait(full_.address(), full_.parity());
    WaitForSlot();
    ptx::Tcgen05FenceAfter();
    const std::uint32_t stage = full_.index();
    const ptx::TensorAddress scales =
        place_.tensor + Layout::kFirstScale + slot_ * Layout::kScaleColumns;
    GEMMD_UNROLL
    for (int tile = 0; tile < Layout::kATiles; ++tile) {
      const ptx::TensorAddress a_scales = scales + 4 * tile;
      const ptx::TensorAddress b_scales = scales + 4 * (Layout::kATiles + tile * Layout::kBTiles);
      CopyScales(stage, tile, a_scales, b_scales);
      GEMMD_UNROLL
      for (int step = 0; step < kTileSteps; ++step) {
        Multiply(is_half, stage, tile, step, a_scales, b_scales,
                 accumulate || tile > 0 || step > 0);
      }
    }
    // The stage may be loaded again, in both blocks.
    ptx::Tcgen05CommitMulticast<2>(place_.shared + Layout::kEmpty + stage * ptx::kMbarrierBytes,
                                   kBothBlocks);
    full_.Next();
    slot_ = slot_ + 1 == Layout::kSlots ? 0 : slot_ + 1;
  }

  // Copies the scales of four blocks of K to tensor memory: in each block of the pair the tile of
  // its rows of A and, next to each other, the tiles of all of B's columns.
  GEMMD_DEVICE void CopyScales(std::uint32_t stage, int tile, ptx::TensorAddress a_scales,
                               ptx::TensorAddress b_scales) const {
    const std::uint32_t a = place_.shared + Layout::kScales + stage * Layout::kScaleBytes;
    const std::uint32_t b = a + Layout::kAScaleBytes;
    ptx::Tcgen05Copy32x128b<2>(a_scales, ScaleDescriptor(a + tile * Layout::kScaleTile));
    GEMMD_UNROLL
    for (int lines = 0; lines < Layout::kBTiles; ++lines) {
      const std::uint32_t index = lines * Layout::kATiles + tile;
      ptx::Tcgen05Copy32x128b<2>(b_scales + 4 * lines,
                                 ScaleDescriptor(b + index * Layout::kScaleTile));
    }
  }

  // 32 lines of 16 bytes one after another: eight of them are 128 bytes.
  static GEMMD_DEVICE std::uint64_t ScaleDescriptor(ptx::SharedAddress address) {
    return ptx::MakeTcgen05Descriptor(address, 0, 128, ptx::Swizzle::kNone);
  }

  // The tile's sums. Those of half a tile lie in the columns that its accumulator alone has.
  GEMMD_DEVICE ptx::TensorAddress Sums(bool is_half) const {
    const ptx::TensorAddress first = place_.tensor + summed_.index() * Layout::kSecond;
    return is_half && summed_.index() != 0 ? first + Step::kOverlap : first;
  }

  // 32 bytes of K: the next ones of each line, whose scales are the next bytes of their words.
  GEMMD_DEVICE void Multiply(bool is_half, std::uint32_t stage, int tile, int step,
                             ptx::TensorAddress a_scales, ptx::TensorAddress b_scales,
                             bool accumulate) const {
    const std::uint32_t a = place_.shared + Layout::kOperands + stage * Layout::kOperandBytes;
    const std::uint32_t b = a + Layout::kABytes;
    const int span = tile / Layout::kSpanTiles;
    const int place = tile % Layout::kSpanTiles * kTileSteps + step;
    const auto id = static_cast<std::uint32_t>(step * kStepScales);
    const std::uint32_t instruction = is_half ? params_.half_instruction : params_.instruction;
    ptx::Tcgen05MultiplyMx<2, kKind>(
        Sums(is_half), OperandDescriptor(a + span * Layout::kASpan + place * 32),
        OperandDescriptor(b + span * Layout::kBSpan + place * 32), instruction | id << 4 | id << 29,
        a_scales, b_scales, accumulate);
  }

  // Eight lines of 128 bytes are a kilobyte, and there is no second span.
  static GEMMD_DEVICE std::uint64_t OperandDescriptor(ptx::SharedAddress address) {
    return ptx::MakeTcgen05Descriptor(address, 16, 1024, ptx::Swizzle::k128B);
  }

  const LadderDParams& params_;
  const PairPlace& place_;
  Phases<Layout::kStages, Step::kIndexesArrays> full_;
  Phases<Layout::kStages, Step::kIndexesArrays> scales_free_;
  Phases<2, Step::kIndexesArrays> summed_;
  Phases<2, Step::kIndexesArrays> own_free_;
  Phases<1, Step::kIndexesArrays> shared_free_;
  std::uint32_t slot_ = 0;
  int stages_ = 0;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
