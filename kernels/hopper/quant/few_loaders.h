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

// A warp loads weights, and a thread of another one A: a copy takes its thread some 100 cycles,
// however small, so each lane has one of a turn's.
template <class Layout, class Decoder>
class FewWeightLoader {
 public:
  GEMMD_DEVICE FewWeightLoader(const QuantParams& params, const FewBlock<Layout>& block)
      : params_(params), block_(block), lane_(ptx::LaneIndex()) {
    const std::uint32_t strip = ptx::BlockIndexX() * Layout::kStrips;
    first_chunk_ = strip / kChunkStrips;
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
  // Strips of half a chunk or less lie apart, group by group; a chunk's groups lie together.
  static constexpr bool kIsApart = Layout::kStrips < kChunkStrips;
  static constexpr std::uint32_t kCodeLanes = kIsApart ? Layout::kTurnGroups : Layout::kChunks;
  static constexpr std::uint32_t kScaleLanes = kCodeLanes + Layout::kChunks;
  static constexpr std::uint32_t kShiftLanes =
      kScaleLanes + (Decoder::kHasShifts ? Layout::kChunks : 0);
  static_assert(kShiftLanes <= 32);

  // Returns whether there was a turn left.
  GEMMD_DEVICE bool Load() {
    const std::int32_t first = turn_ * Layout::kTurnGroups;
    const std::int32_t left = params_.k_groups - first;
    if (left <= 0) return false;
    const std::uint32_t stage = ring_.stage;
    if (turn_ >= Layout::kWeightStages) {
      ptx::MbarrierWait(block_.WeightsEmpty(stage), ring_.parity ^ 1);
    }
    const auto groups =
        static_cast<std::uint32_t>(left < Layout::kTurnGroups ? left : Layout::kTurnGroups);
    const ptx::SharedAddress full = block_.WeightsFull(stage);
    // A copy may end before it is expected: the stage is full once this lane has arrived too.
    if (lane_ == 0) {
      ptx::MbarrierArriveExpect(
          full,
          Layout::kChunks * (groups * Layout::kGroupCodes +
                             ScaleGroups(groups) * (Layout::kGroupScales + Layout::kGroupShifts)));
    }
    LoadLane(block_.shared + Layout::kWeightsAt + stage * Layout::kWeightStageBytes, first, groups,
             full);
    ring_.Next();
    if (turn_++ == params_.trigger) ptx::LaunchDependentGrid();
    return true;
  }

  // Those whose scales are loaded: where they are of whole lines, those are one group's.
  GEMMD_DEVICE std::uint32_t ScaleGroups(std::uint32_t groups) const {
    return params_.scales_are_of_lines ? 1 : groups;
  }
  // The unit of a chunk's first strip, in a plane that has scales, or codes, for each group.
  GEMMD_DEVICE std::int64_t UnitOf(std::uint32_t chunk, std::int64_t group,
                                   bool has_groups = true) const {
    const std::int64_t of_chunk = std::int64_t{first_chunk_} + chunk;
    return (has_groups ? of_chunk * params_.k_groups + group : of_chunk) * kChunkStrips;
  }

  // This lane's copy of a turn whose groups are `groups` from `first` on.
  GEMMD_DEVICE void LoadLane(ptx::SharedAddress stage, std::int32_t first, std::uint32_t groups,
                             ptx::SharedAddress full) const {
    const auto load = [&](std::uint32_t to, const std::uint8_t* from, std::uint32_t bytes) {
      ptx::BulkLoad(stage + to, from, bytes, full, ptx::CachePolicy::kEvictFirst);
    };
    const std::uint32_t count = ScaleGroups(groups);
    const bool has_groups = !params_.scales_are_of_lines;
    if (lane_ < kCodeLanes) {
      if constexpr (kIsApart) {
        if (lane_ >= groups) return;
        load(lane_ * Layout::kGroupCodes,
             params_.codes + (UnitOf(0, first + lane_) + first_strip_) * Decoder::kCodeBytes,
             Layout::kGroupCodes);
      } else {
        load(lane_ * (Layout::kTurnGroups * Layout::kGroupCodes),
             params_.codes + UnitOf(lane_, first) * Decoder::kCodeBytes,
             groups * Layout::kGroupCodes);
      }
    } else if (lane_ < kScaleLanes) {
      const std::uint32_t chunk = lane_ - kCodeLanes;
      load(Layout::kScalesAt + chunk * (Layout::kTurnGroups * Layout::kGroupScales),
           params_.scales + UnitOf(chunk, first, has_groups) * Decoder::kScaleBytes,
           count * Layout::kGroupScales);
    } else if (lane_ < kShiftLanes) {
      const std::uint32_t chunk = lane_ - kScaleLanes;
      load(Layout::kShiftsAt + chunk * (Layout::kTurnGroups * Layout::kGroupShifts),
           params_.shifts + UnitOf(chunk, first, has_groups) * Decoder::kShiftBytes,
           count * Layout::kGroupShifts);
    }
  }

  const QuantParams& params_;
  const FewBlock<Layout>& block_;
  const std::uint32_t lane_;
  std::uint32_t first_chunk_;
  std::uint32_t first_strip_;  // of a chunk
  std::int32_t turn_ = 0;
  mma::RingPosition<Layout::kWeightStages> ring_;
};

// A turn of A is one copy, by the map of all rows.
template <class Layout>
GEMMD_DEVICE void LoadRows(const ptx::TensorMap& rows, const QuantParams& params,
                           const FewBlock<Layout>& block) {
  const std::int32_t turns = (params.k_groups + Layout::kTurnGroups - 1) / Layout::kTurnGroups;
  mma::RingPosition<Layout::kRowStages> ring;
  for (std::int32_t turn = 0; turn < turns; ++turn) {
    if (turn >= Layout::kRowStages) {
      ptx::MbarrierWait(block.RowsEmpty(ring.stage), ring.parity ^ 1);
    }
    const ptx::SharedAddress full = block.RowsFull(ring.stage);
    ptx::MbarrierArriveExpect(full, Layout::kRowBytes);
    ptx::TensorLoad3DCached(block.shared + Layout::kRowsAt + ring.stage * Layout::kRowStageBytes,
                            &rows, 0, params.first_row, turn * Layout::kTurnSlabs, full,
                            ptx::CachePolicy::kNormal);
    ring.Next();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
