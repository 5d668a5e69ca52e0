// The consumers of the f64 product: warps that multiply a part of the tile and write D.
//
// Each element of D is one chain of fused multiply-adds over ascending k, beginning with +0,
// whatever the tiling and the instruction's K.
#pragma once

#include "kernels/hopper/f64/finish.h"
#include "kernels/hopper/f64/line_order.h"
#include "kernels/hopper/f64/producer.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/mma_sync_f64.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

// A lane's elements of both operands in one step of K.
template <class Layout>
struct Fragments {
  double rows[Layout::kRowBlocks][Layout::kStepK / 2];
  double columns[Layout::kColumnBlocks][Layout::kStepK / 4];
};

template <class Layout>
class Consumer {
 public:
  GEMMD_DEVICE Consumer(const ProductParams& params, const mma::Ring<Layout>& stages)
      : params_(params),
        stages_(stages),
        rows_(FirstRow(), ptx::LaneIndex()),
        columns_(FirstColumn(), ptx::LaneIndex()) {}

  GEMMD_DEVICE void Run() {
    for (std::uint32_t tile = ptx::BlockIndexX(); tile < TilesOf(params_);
         tile += ptx::GridSizeX()) {
      Sums<Layout> sums;
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kRowBlocks; ++i) {
        GEMMD_UNROLL
        for (int j = 0; j < Layout::kColumnBlocks; ++j) {
          GEMMD_UNROLL
          for (int e = 0; e < 4; ++e) sums.block[i][j][e] = 0;
        }
      }
      SumTile(sums);
      // Operands may have been loaded ahead of this grid's turn; D is written, and C read, in it.
      ptx::WaitForPrecedingGrid();
      Finish(sums, tile);
    }
  }

 private:
  // Return the warp's place in the tile. They are computed anew: there is no register to keep them
  // in.
  GEMMD_DEVICE static std::uint32_t Warp() { return (ptx::ThreadIndex() - kProducerThreads) / 32; }
  GEMMD_DEVICE static std::uint32_t FirstRow() {
    return Warp() / Layout::kColumnWarps * Layout::kWarpRows;
  }
  GEMMD_DEVICE static std::uint32_t FirstColumn() {
    return Warp() % Layout::kColumnWarps * Layout::kWarpColumns;
  }

  GEMMD_DEVICE void WaitForStage() { ptx::MbarrierWait(stages_.Full(ring_.stage), ring_.parity); }

  // The warp has loaded all that it needs of the stage at hand.
  GEMMD_DEVICE void ReleaseStage() {
    ptx::SyncWarp();
    if (ptx::LaneIndex() == 0) ptx::MbarrierArrive(stages_.Empty(ring_.stage));
    ring_.Next();
  }

  GEMMD_DEVICE void Load(int step, Fragments<Layout>& fragments) const {
    const ptx::SharedAddress rows = stages_.Stage(ring_.stage);
    const ptx::SharedAddress columns = rows + Layout::kColumnOffset;
    const int quad = step * (Layout::kStepK / 4);
    GEMMD_UNROLL
    for (int j = 0; j < Layout::kColumnBlocks; ++j) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kStepK / 4; ++i) {
        fragments.columns[j][i] = columns_.Load(columns, static_cast<std::uint32_t>(j),
                                                static_cast<std::uint32_t>(quad + i));
      }
    }
    GEMMD_UNROLL
    for (int j = 0; j < Layout::kRowBlocks; ++j) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kStepK / 2; ++i) {
        fragments.rows[j][i] = rows_.Load(rows, static_cast<std::uint32_t>(2 * j + i % 2),
                                          static_cast<std::uint32_t>(quad + i / 2));
      }
    }
  }

  GEMMD_DEVICE static void Multiply(const Fragments<Layout>& fragments, Sums<Layout>& sums) {
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kRowBlocks; ++i) {
      GEMMD_UNROLL
      for (int j = 0; j < Layout::kColumnBlocks; ++j) {
        ptx::MmaF64Rows16<Layout::kStepK>(sums.block[i][j], fragments.rows[i],
                                          fragments.columns[j]);
      }
    }
  }

  GEMMD_DEVICE void SumTile(Sums<Layout>& sums) {
    const std::int32_t k_stages = StagesOfK<Layout>(params_);
    if constexpr (Layout::kLoadsAhead) {
      SumAhead(sums, k_stages);
    } else {
      Fragments<Layout> fragments;
      GEMMD_NO_UNROLL
      for (std::int32_t k_stage = 0; k_stage < k_stages; ++k_stage) {
        WaitForStage();
        GEMMD_UNROLL
        for (int step = 0; step < Layout::kSteps; ++step) {
          Load(step, fragments);
          if (step + 1 == Layout::kSteps) ReleaseStage();
          Multiply(fragments, sums);
        }
      }
    }
  }

  // Two sets of fragments: one is loaded while the other is multiplied, across stages too.
  GEMMD_DEVICE void SumAhead(Sums<Layout>& sums, std::int32_t k_stages) {
    Fragments<Layout> fragments[2];
    WaitForStage();
    Load(0, fragments[0]);
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 1; k_stage <= k_stages; ++k_stage) {
      GEMMD_UNROLL
      for (int step = 0; step < Layout::kSteps; ++step) {
        if (step + 1 < Layout::kSteps) {
          Load(step + 1, fragments[(step + 1) % 2]);
        } else {
          ReleaseStage();
          if (k_stage < k_stages) {
            WaitForStage();
            Load(0, fragments[0]);
          }
        }
        Multiply(fragments[step % 2], sums);
      }
    }
  }

  GEMMD_DEVICE void Finish(Sums<Layout>& sums, std::uint32_t tile) const {
    const hopper::RasterTile at = hopper::TileAt(params_.raster, tile);
    const std::uint32_t row = at.row * Layout::kTileRows + FirstRow() +
                              LineOrder<typename Layout::Rows>::Lane(ptx::LaneIndex() / 4);
    const std::uint32_t column =
        at.column * Layout::kTileColumns + FirstColumn() +
        LineOrder<typename Layout::Columns>::Lane(ptx::LaneIndex() % 4 * 2);
    StoreSums<Layout>(params_, sums, static_cast<std::int32_t>(row),
                      static_cast<std::int32_t>(column));
  }

  const ProductParams& params_;
  const mma::Ring<Layout>& stages_;
  const LaneElements<typename Layout::Rows> rows_;
  const LaneElements<typename Layout::Columns> columns_;
  mma::RingPosition<Layout::kStages> ring_;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
