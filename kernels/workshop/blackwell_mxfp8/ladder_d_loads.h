// The warp of a ladder D block that loads: stages of A, B and their scales.
#pragma once

#include <cstdint>

#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_copy.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_tiles.h"
#include "kernels/workshop/blackwell_mxfp8/phases.h"

namespace gemmd::blackwell_mxfp8 {
inline namespace GEMMD_BACKEND {

// One thread of each block. A block loads its half of the pair's rows of A with their scales, its
// half of the columns of B, and the scales of all of them, which products want whole in both
// blocks. All of it is counted on the mbarrier of the even block, whose thread multiplies.
template <class Step, bool kTensorStores>
class LadderDLoads {
 public:
  GEMMD_DEVICE LadderDLoads(const LadderDParams& params, const PairPlace& place)
      : params_(params), place_(place), empty_(place.shared + Layout::kEmpty, 1) {}

  GEMMD_DEVICE void Run() {
    for (PairTiles<Step> tiles(params_, place_); !tiles.Done(); tiles.Next()) {
      const PairTile tile = tiles.Get();
      for (std::int32_t k = 0; k < params_.k; k += Step::kTileK) LoadStage(tile, k);
    }
    AwaitLastCommits();
  }

 private:
  using Layout = LadderDLayout<Step, kTensorStores>;

  // The commits that give back the last stages arrive in this block's memory, which must not be
  // another block's by then. Sums that are known tell nothing of them.
  GEMMD_DEVICE void AwaitLastCommits() {
    for (int stage = 0; stage < Layout::kStages; ++stage) {
      ptx::MbarrierWait(empty_.address(), empty_.parity());
      empty_.Next();
    }
  }

  // The bytes that this block's loads bring to the pair.
  GEMMD_DEVICE std::uint32_t ExpectedBytes(const PairTile& tile) const {
    const std::uint32_t all =
        tile.is_half ? Layout::kStageBytes - Layout::kBBytes / 2 : Layout::kStageBytes;
    if (!Step::kSharesBScales) return all;
    const std::uint32_t without = all - Layout::kBScaleBytes;
    return place_.rank == 0 ? without + 2 * Layout::kBScaleBytes : without;
  }

  GEMMD_DEVICE void LoadStage(const PairTile& tile, std::int32_t k) {
    const std::uint32_t stage = empty_.index();
    ptx::MbarrierWait(empty_.address(), empty_.parity());
    const ptx::SharedAddress full = place_.shared + Layout::kFull + stage * ptx::kMbarrierBytes;
    ptx::MbarrierArriveExpectRemote(ptx::MapShared(full, 0), ExpectedBytes(tile));
    LoadOperands(tile, k, stage, full);
    LoadScales(tile, k, stage, full);
    empty_.Next();
  }

  // Elements outside the matrices become zero. Half of a tile's B leaves the other half of its
  // place as it is.
  GEMMD_DEVICE void LoadOperands(const PairTile& tile, std::int32_t k, std::uint32_t stage,
                                 ptx::SharedAddress full) const {
    const std::int32_t row = tile.row + static_cast<std::int32_t>(place_.rank * kHalfM);
    const std::uint32_t odd_half = place_.rank * kHalfN;
    const std::int32_t column =
        tile.column + static_cast<std::int32_t>(tile.is_half ? odd_half / 2 : odd_half);
    const ptx::TensorMap* const map = tile.is_half ? &params_.half_b : &params_.b;
    const std::uint32_t a = place_.shared + Layout::kOperands + stage * Layout::kOperandBytes;
    const std::uint32_t b = a + Layout::kABytes;
    GEMMD_UNROLL
    for (int span = 0; span < Layout::kSpans; ++span) {
      const std::int32_t x = (k + span * Layout::kSpanElements) / Layout::kElementsPerByte;
      ptx::TensorLoad2DOfPair(a + span * Layout::kASpan, &params_.a, x, row, full);
      ptx::TensorLoad2DOfPair(b + span * Layout::kBSpan, map, x, column, full);
    }
  }

  // Loads the scales of a stage. With half a tile come those of the 128 columns behind it, too,
  // which are not used.
  GEMMD_DEVICE void LoadScales(const PairTile& tile, std::int32_t k, std::uint32_t stage,
                               ptx::SharedAddress full) const {
    const std::uint32_t a = place_.shared + Layout::kScales + stage * Layout::kScaleBytes;
    const std::uint32_t b = a + Layout::kAScaleBytes;
    const std::int32_t along_k = k / (4 * Layout::kBlock);
    const std::int32_t row = tile.row / 128 + static_cast<std::int32_t>(place_.rank);
    const std::int32_t column = tile.column / 128;
    ptx::TensorLoad4DOfPair(a, &params_.a_scales, {0, 0, along_k, row}, full);
    if constexpr (!Step::kSharesBScales) {
      ptx::TensorLoad4DOfPair(b, &params_.b_scales, {0, 0, along_k, column}, full);
    } else if (place_.rank == 0) {
      ptx::TensorLoad4DToPair(b, &params_.b_scales, {0, 0, along_k, column}, full);
    }
  }

  static constexpr std::uint32_t kHalfM = Step::kTileM / 2;
  static constexpr std::uint32_t kHalfN = Step::kTileN / 2;

  const LadderDParams& params_;
  const PairPlace& place_;
  Phases<Layout::kStages, Step::kIndexesArrays> empty_;  // the first time round they are
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::blackwell_mxfp8
