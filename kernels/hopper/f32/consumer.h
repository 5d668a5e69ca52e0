// The consumers of the f32 product: warpgroups that split rows, multiply, sum and write D.
//
// wgmma truncates, so that a long accumulation drifts. Each 32 of K is therefore summed by itself,
// small products first, and added to an f32 sum. The part that rounding
// takes from that addition is not lost: the next accumulation begins with it. So one register holds
// accumulator and rest, and three additions do what TwoSum and a sum of rests need seven for.
#pragma once

#include "kernels/hopper/common/compensated_sum.h"
#include "kernels/hopper/common/f32_finish.h"
#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/f32/fragments.h"
#include "kernels/hopper/f32/producer.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

// Named barriers, this and 2: whose turn it is to multiply.
inline constexpr std::uint32_t kTurnBarrier = 1;

template <class Layout>
using Sums = float[Layout::kSums];

// The products of a block of K, committed; `parts` is the columns' descriptor. Rows are B's: the
// terms are lo(A) hi(B), mid mid, hi lo, mid hi, hi mid, hi hi.
template <class Layout>
GEMMD_DEVICE void MultiplyBlock(Sums<Layout>& sums, const Fragments& rows, std::uint64_t parts) {
  constexpr int kTerms[6][2] = {{0, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};
  ptx::WgmmaFence();
  GEMMD_UNROLL
  for (int x = 0; x < 6 * kSteps; ++x) {
    const int step = x % kSteps;
    const int row_part = kTerms[x / kSteps][0];
    const int column_part = kTerms[x / kSteps][1];
    ptx::WgmmaRegisters<ptx::WgmmaType::kBf16, Layout::kGroupColumns>(
        sums, rows[step][row_part],
        hopper::MoveDescriptor(
            parts, static_cast<std::uint32_t>(column_part * kPartAtomBytes + step * 32)),
        true);
  }
  ptx::WgmmaCommit();
}

template <class Layout, Major kRowMajor>
class ConsumerOf {
 public:
  GEMMD_DEVICE ConsumerOf(const F32Params& params, const Block<Layout>& block,
                          const hopper::Consumer& me)
      : params_(params), block_(block), me_(me) {
    const std::uint32_t columns = ColumnGroup() * (Layout::kGroupColumns / 8) * kPartGroupBytes;
    parts_ = ptx::MakeWgmmaDescriptor(block.shared + Layout::kPartOffset + columns, 16,
                                      kPartGroupBytes, ptx::Swizzle::k64B);
  }

  // The producer arms a stage once the grid's turn has come, so that whoever has one may write D.
  GEMMD_DEVICE void Run() {
    if constexpr (Layout::kTakesTurns) {
      if (me_.group == 1) ptx::NamedBarrierArrive(kTurnBarrier, 2 * kWarpgroup);
    }
    for (std::uint32_t tile = ptx::BlockIndexX(); tile < TilesOf(params_);
         tile += ptx::GridSizeX()) {
      Sums<Layout> sum;
      Sums<Layout> rest;
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kSums; ++i) {
        sum[i] = 0;
        rest[i] = 0;
      }
      SumTile(sum, rest, tile + ptx::GridSizeX() >= TilesOf(params_));
      Finish(sum, rest, tile);
    }
  }

 private:
  GEMMD_DEVICE std::uint32_t RowGroup() const { return me_.group % Layout::kRowGroups; }
  GEMMD_DEVICE std::uint32_t ColumnGroup() const { return me_.group / Layout::kRowGroups; }

  // Splits the rows of block `i` of the stage at hand.
  GEMMD_DEVICE void Split(std::uint32_t i, Fragments& fragments) {
    if (i == 0) ptx::MbarrierWait(block_.Full(ring_.stage), ring_.parity);
    SplitRows<kRowMajor>(
        block_.Stage(ring_.stage) + i * Layout::kRowBytes + RowGroup() * hopper::kRowBlockBytes,
        me_.warp, me_.lane, fragments);
  }

  // Multiplies block `i` of a stage, whose rows are `now`. While that runs it splits the rows of
  // the next block into `next`.
  GEMMD_DEVICE void Multiply(std::uint32_t i, const Fragments& now, Fragments& next, bool has_next,
                             bool is_last_tile, Sums<Layout>& sum, Sums<Layout>& rest) {
    if constexpr (Layout::kTakesTurns) {
      ptx::NamedBarrierSync(kTurnBarrier + me_.group, 2 * kWarpgroup);
    }
    MultiplyBlock<Layout>(
        rest, now,
        hopper::MoveDescriptor(parts_, ring_.stage * Layout::kStageBytes + i * Layout::kPartBytes));
    if constexpr (Layout::kTakesTurns) {
      if (has_next || !is_last_tile || me_.group == 0) {
        ptx::NamedBarrierArrive(kTurnBarrier + (me_.group ^ 1), 2 * kWarpgroup);
      }
    }
    const std::uint32_t reading = ring_.stage;
    const bool is_last_block = i == kStageBlocks - 1;
    if (is_last_block) ring_.Next();
    if (has_next) Split(is_last_block ? 0 : i + 1, next);
    ptx::WgmmaWait<0>();
    if (is_last_block) {
      // Each warp for itself: it alone has read its rows.
      ptx::SyncWarp();
      if (me_.lane == 0) ptx::MbarrierArrive(block_.Empty(reading));
    }
    AddRest(sum, rest);
  }

  GEMMD_DEVICE void SumTile(Sums<Layout>& sum, Sums<Layout>& rest, bool is_last_tile) {
    static_assert(kStageBlocks == 2);
    const std::int32_t k_stages = StagesOfK(params_);
    Fragments even;
    Fragments odd;
    Split(0, even);
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 0; k_stage < k_stages; ++k_stage) {
      Multiply(0, even, odd, true, is_last_tile, sum, rest);
      Multiply(1, odd, even, k_stage + 1 < k_stages, is_last_tile, sum, rest);
    }
  }

  GEMMD_DEVICE void Finish(Sums<Layout>& sum, const Sums<Layout>& rest, std::uint32_t tile) const {
    const hopper::RasterTile at = hopper::TileAt(params_.raster, tile);
    const std::uint32_t row =
        at.row * Layout::kTileRows + RowGroup() * 64 + me_.warp * 16 + RowOfLane(me_.lane);
    const std::uint32_t column =
        at.column * Layout::kTileColumns + ColumnGroup() * Layout::kGroupColumns + me_.lane % 4 * 2;
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kSums; ++i) sum[i] = (sum[i] + rest[i]) * kUnscale;
    constexpr int kPitch = Layout::kConsumers * kWarpgroup * 4;
    const std::uint32_t thread = me_.group * kWarpgroup + me_.warp * 32 + me_.lane;
    StoreSums<Layout::kSums, kPitch>(params_, sum, block_.shared + Layout::kSumOffset + thread * 4,
                                     static_cast<std::int32_t>(row),
                                     static_cast<std::int32_t>(column));
  }

  const F32Params& params_;
  const Block<Layout>& block_;
  const hopper::Consumer me_;
  std::uint64_t parts_;
  mma::RingPosition<Layout::kStages> ring_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
