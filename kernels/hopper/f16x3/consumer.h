// The consumers: warpgroups that multiply, sum and write D.
//
// As in f32/consumer.h, what rounding takes from the addition of a stage's sum is the value the
// next stage's accumulation begins with.
#pragma once

#include "kernels/hopper/common/compensated_sum.h"
#include "kernels/hopper/common/f32_finish.h"
#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/f16x3/producer.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

// Named barriers, this and 2: whose turn it is to multiply.
inline constexpr std::uint32_t kTurnBarrier = 1;

template <class Layout>
using Sums = float[Layout::kSums];

// The products kFirst to kLast of a stage's three, not committed. Rows are B's: they are lo(A)
// hi(B), hi lo, hi hi.
template <class Layout, int kFirst, int kLast>
GEMMD_DEVICE void MultiplyParts(Sums<Layout>& sums, std::uint64_t rows, std::uint64_t columns) {
  constexpr int kTerms[3][2] = {{0, 1}, {1, 0}, {0, 0}};
  GEMMD_UNROLL
  for (int x = kFirst * kSteps; x < (kLast + 1) * kSteps; ++x) {
    const int step = x % kSteps * 32;
    const int row_part = kTerms[x / kSteps][0];
    const int column_part = kTerms[x / kSteps][1];
    ptx::Wgmma<ptx::WgmmaType::kF16, Layout::kTileColumns>(
        sums,
        hopper::MoveDescriptor(rows, static_cast<std::uint32_t>(row_part * kPartAtomBytes + step)),
        hopper::MoveDescriptor(columns,
                               static_cast<std::uint32_t>(column_part * kPartAtomBytes + step)),
        true);
  }
}

template <class Layout>
class ConsumerOf {
 public:
  GEMMD_DEVICE ConsumerOf(const ProductParams& params, const Block<Layout>& block,
                          const hopper::Consumer& me)
      : params_(params), block_(block), me_(me) {
    rows_ = Descriptor(block.shared + me.group * (64 / 8) * kPartGroupBytes);
    columns_ = Descriptor(block.shared + Layout::kColumnOffset);
  }

  // The producer arms a stage once the grid's turn has come, so that whoever has one may read
  // exponents and write D.
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
  GEMMD_DEVICE static std::uint64_t Descriptor(ptx::SharedAddress address) {
    return ptx::MakeWgmmaDescriptor(address, 16, kPartGroupBytes, ptx::Swizzle::k128B);
  }
  GEMMD_DEVICE void PassTurn(bool is_last) {
    if constexpr (Layout::kTakesTurns) {
      if (!is_last || me_.group == 0) {
        ptx::NamedBarrierArrive(kTurnBarrier + (me_.group ^ 1), 2 * kWarpgroup);
      }
    }
  }

  GEMMD_DEVICE void SumTile(Sums<Layout>& sum, Sums<Layout>& rest, bool is_last_tile) {
    const std::int32_t k_stages = StagesOfK(params_);
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 0; k_stage < k_stages; ++k_stage) {
      const bool is_last = is_last_tile && k_stage + 1 == k_stages;
      ptx::MbarrierWait(block_.Full(ring_.stage), ring_.parity);
      if constexpr (Layout::kTakesTurns) {
        ptx::NamedBarrierSync(kTurnBarrier + me_.group, 2 * kWarpgroup);
      }
      const std::uint32_t offset = ring_.stage * Layout::kStageBytes;
      const std::uint64_t rows = hopper::MoveDescriptor(rows_, offset);
      const std::uint64_t columns = hopper::MoveDescriptor(columns_, offset);
      ptx::WgmmaFence();
      // The turn passes while the last third is at work: were all of it at work, the two groups'
      // products would mix and end together, and nobody would multiply while both add.
      MultiplyParts<Layout, 0, 1>(rest, rows, columns);
      ptx::WgmmaCommit();
      MultiplyParts<Layout, 2, 2>(rest, rows, columns);
      ptx::WgmmaCommit();
      if constexpr (Layout::kTakesTurns) ptx::WgmmaWait<1>();
      PassTurn(is_last);
      ptx::WgmmaWait<0>();
      ptx::SyncWarp();
      if (me_.lane == 0) ptx::MbarrierArrive(block_.Empty(ring_.stage));
      ring_.Next();
      hopper::AddRest(sum, rest);
    }
  }

  GEMMD_DEVICE void Finish(Sums<Layout>& sum, const Sums<Layout>& rest, std::uint32_t tile) const {
    const hopper::RasterTile at = hopper::TileAt(params_.sums.raster, tile);
    const std::uint32_t row =
        at.row * Layout::kTileRows + me_.group * 64 + me_.warp * 16 + me_.lane / 4;
    const std::uint32_t column = at.column * Layout::kTileColumns + me_.lane % 4 * 2;
    Scale(sum, rest, row, column);
    constexpr int kTogether = Layout::kSumsTogether;
    constexpr int kPitch = Layout::kConsumers * kWarpgroup * 4;
    const std::uint32_t thread = me_.group * kWarpgroup + me_.warp * 32 + me_.lane;
    GEMMD_UNROLL
    for (int first = 0; first < Layout::kSums; first += kTogether) {
      float together[kTogether];
      GEMMD_UNROLL
      for (int i = 0; i < kTogether; ++i) together[i] = sum[first + i];
      hopper::StoreSums<kTogether, kPitch>(
          params_.sums, together, block_.shared + Layout::kSumOffset + thread * 4,
          static_cast<std::int32_t>(row),
          static_cast<std::int32_t>(column) + hopper::ColumnOf(first));
    }
  }

  // Takes the lines' powers of two out of the sums.
  GEMMD_DEVICE void Scale(Sums<Layout>& sum, const Sums<Layout>& rest, std::uint32_t row,
                          std::uint32_t column) const {
    struct Two {
      std::int32_t exponent[2];
    };
    std::int32_t row_exponents[2];
    GEMMD_UNROLL
    for (int i = 0; i < 2; ++i) {
      row_exponents[i] = ptx::LoadGlobal(params_.row_exponents + row + i * 8);
    }
    GEMMD_UNROLL
    for (int first = 0; first < Layout::kSums; first += 4) {
      const auto columns = ptx::LoadGlobal(reinterpret_cast<const Two*>(
          params_.column_exponents + column + hopper::ColumnOf(first)));
      GEMMD_UNROLL
      for (int i = 0; i < 4; ++i) {
        sum[first + i] = TimesPowerOfTwo(sum[first + i] + rest[first + i],
                                         row_exponents[i / 2] + columns.exponent[i % 2]);
      }
    }
  }

  const ProductParams& params_;
  const Block<Layout>& block_;
  const hopper::Consumer me_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  mma::RingPosition<Layout::kStages> ring_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
