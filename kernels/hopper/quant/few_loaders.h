// The two threads of a block of few.h that load.
#pragma once

#include "kernels/hopper/quant/few_layout.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/bulk_copy.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// One thread loads weights, and another one A: a copy takes its thread some 100 cycles, however
// small.
template <class Layout, class Decoder>
class FewWeightLoader {
 public:
  GEMMD_DEVICE FewWeightLoader(const QuantParams& params, const FewBlock<Layout>& block)
      : params_(params), block_(block) {
    const std::uint32_t strip = ptx::BlockIndexX() * Layout::kStrips;
    unit_ = static_cast<std::int64_t>(strip / kChunkStrips) * ChunkLineUnits();
    first_strip_ = strip % kChunkStrips;
  }

  // The ring's first turns, for which nobody waits.
  GEMMD_DEVICE void LoadFirst() {
    for (int stage = 0; stage < Layout::kWeightStages; ++stage) {
      if (!Load()) return;
    }
  }
  GEMMD_DEVICE void Run() {
    while (Load()) {
    }
  }

 private:
  // From a chunk to the next one.
  GEMMD_DEVICE std::int64_t ChunkLineUnits() const {
    return std::int64_t{params_.k_groups} * kChunkStrips;
  }

  // Returns whether there was a turn left.
  GEMMD_DEVICE bool Load() {
    const std::int32_t left = params_.k_groups - turn_ * Layout::kTurnGroups;
    if (left <= 0) return false;
    const std::uint32_t stage = ring_.stage;
    if (turn_ >= Layout::kWeightStages) {
      ptx::MbarrierWait(block_.WeightsEmpty(stage), ring_.parity ^ 1);
    }
    const std::int32_t groups = left < Layout::kTurnGroups ? left : Layout::kTurnGroups;
    const ptx::SharedAddress full = block_.WeightsFull(stage);
    const ptx::SharedAddress to =
        block_.shared + Layout::kWeightsAt + stage * Layout::kWeightStageBytes;
    ptx::MbarrierArriveExpect(
        full, static_cast<std::uint32_t>(groups) * Layout::kChunks *
                  (Layout::kGroupCodes + Layout::kGroupScales + Layout::kGroupZeros));
    GEMMD_UNROLL
    for (int chunk = 0; chunk < Layout::kChunks; ++chunk) {
      LoadChunk(to, chunk, unit_ + chunk * ChunkLineUnits(), groups, full);
    }
    unit_ += Layout::kTurnGroups * kChunkStrips;
    ring_.Next();
    if (turn_++ == params_.trigger) ptx::LaunchDependentGrid();
    return true;
  }

  // The groups of a chunk from unit `unit` on. Strips of half a chunk lie apart; their scales are
  // too few to be fetched apart.
  GEMMD_DEVICE void LoadChunk(ptx::SharedAddress stage, int chunk, std::int64_t unit,
                              std::int32_t groups, ptx::SharedAddress full) const {
    const auto load = [&](ptx::SharedAddress to, const std::uint8_t* from, std::uint32_t bytes) {
      ptx::BulkLoad(to, from, bytes, full, ptx::CachePolicy::kEvictFirst);
    };
    const auto count = static_cast<std::uint32_t>(groups);
    const ptx::SharedAddress codes = stage + chunk * (Layout::kTurnGroups * Layout::kGroupCodes);
    const std::uint8_t* const from = params_.codes + (unit + first_strip_) * kCodeBytes;
    if constexpr (Layout::kStrips >= kChunkStrips) {
      load(codes, from, count * Layout::kGroupCodes);
    } else {
      for (std::uint32_t g = 0; g < count; ++g) {
        load(codes + g * Layout::kGroupCodes, from + g * (kChunkStrips * kCodeBytes),
             Layout::kGroupCodes);
      }
    }
    load(stage + Layout::kScalesAt + chunk * (Layout::kTurnGroups * Layout::kGroupScales),
         params_.scales + unit * Decoder::kScaleBytes, count * Layout::kGroupScales);
    if constexpr (Decoder::kHasZeros) {
      load(stage + Layout::kZerosAt + chunk * (Layout::kTurnGroups * Layout::kGroupZeros),
           params_.zero_points + unit * kZeroBytes, count * Layout::kGroupZeros);
    }
  }

  const QuantParams& params_;
  const FewBlock<Layout>& block_;
  std::int64_t unit_;          // the next group's, of the block's first chunk
  std::uint32_t first_strip_;  // of a chunk
  std::int32_t turn_ = 0;
  mma::RingPosition<Layout::kWeightStages> ring_;
};

// A turn of A is one copy.
template <class Layout>
GEMMD_DEVICE void LoadRows(const QuantParams& params, const FewBlock<Layout>& block) {
  const std::int32_t turns = (params.k_groups + Layout::kTurnGroups - 1) / Layout::kTurnGroups;
  mma::RingPosition<Layout::kRowStages> ring;
  for (std::int32_t turn = 0; turn < turns; ++turn) {
    if (turn >= Layout::kRowStages) {
      ptx::MbarrierWait(block.RowsEmpty(ring.stage), ring.parity ^ 1);
    }
    const ptx::SharedAddress full = block.RowsFull(ring.stage);
    ptx::MbarrierArriveExpect(full, Layout::kRowStageBytes);
    ptx::TensorLoad3DCached(block.shared + Layout::kRowsAt + ring.stage * Layout::kRowStageBytes,
                            &params.rows, 0, 0, turn * Layout::kTurnSlabs, full,
                            ptx::CachePolicy::kNormal);
    ring.Next();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
