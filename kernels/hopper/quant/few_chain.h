// A warp of the product of few rows by weights that are exact in bf16. The sums of its strip are
// one chain over all of K in steps of 16, with the bits of a product of bf16: nothing is exchanged.
// A step waits for the one before, so what it multiplies is loaded and decoded meanwhile.
#pragma once

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/few_layout.h"
#include "kernels/hopper/quant/finish.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/bits.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

template <class Layout, class Decoder>
class ChainWarp {
 public:
  GEMMD_DEVICE ChainWarp(const QuantParams& params, ptx::SharedAddress base, std::uint32_t strip)
      : params_(params), strip_(strip), lane_(ptx::LaneIndex()) {
    static_assert(Layout::kSplits == 1 && Layout::kTurnGroups % 2 == 0);
    const std::uint32_t shared = ptx::Keep(base);
    const std::uint32_t stage = shared + Layout::kWeightsAt;
    const std::uint32_t before = strip / kChunkStrips * Layout::kTurnGroups;  // groups of the stage
    codes_ = ptx::Keep(stage + before * Layout::kGroupCodes +
                       strip % kChunkStrips * Decoder::kCodeBytes + lane_ * 16);
    // Scales are there of whole chunks.
    const std::uint32_t of_chunk = (ptx::BlockIndexX() * Layout::kStrips + strip) % kChunkStrips;
    scales_ = ptx::Keep(stage + Layout::kScalesAt + before * Layout::kGroupScales +
                        of_chunk * Decoder::kScaleBytes + lane_ / 4 * (Decoder::kScaleBytes / 8));
    weights_full_ = ptx::Keep(shared + Layout::kWeightsFull);
    rows_ = ptx::Keep(shared + Layout::kRowsAt + RowLineOf<Layout>(lane_, 0));
    rows_full_ = ptx::Keep(shared + Layout::kRowsFull);
    factor_ = SumFactor<Decoder>(params);
  }

  GEMMD_DEVICE void Run() {
    GEMMD_UNROLL
    for (int eight = 0; eight < kEights; ++eight) {
      GEMMD_UNROLL
      for (int i = 0; i < 4; ++i) sums_[eight][i] = 0;
    }
    BeginTurn(params_.k_groups);
    GEMMD_NO_UNROLL
    for (std::int32_t left = params_.k_groups; left > 0; left -= Layout::kTurnGroups) {
      if (is_plain_) {
        PlainTurn<0>(left);
      } else {
        AnyTurn(left);
      }
    }
    Store();
  }

 private:
  static constexpr int kEights = Layout::kColumns / 8;
  static constexpr int kLoads = kEights * 4;              // of ldmatrix, a group
  static constexpr int kCodeLoads = Decoder::kCodeLoads;  // likewise
  struct Group {
    ptx::Vector4 words[kCodeLoads];
    std::uint32_t columns[kLoads][4];
  };

  // Waits for the turn whose groups are the first of `left`. A plain one is whole and has no
  // odd scale: its first group and all of its scales are loaded.
  GEMMD_DEVICE void BeginTurn(std::int32_t left) {
    ptx::MbarrierWait(weights_full_, weights_parity_);
    ptx::MbarrierWait(rows_full_, rows_parity_);
    is_plain_ = left >= Layout::kTurnGroups;
    if (!is_plain_) return;
    bool has_odd = false;
    GEMMD_UNROLL
    for (int nth = 0; nth < Layout::kTurnGroups; ++nth) {
      decoders_[nth].Load(scales_ + nth * Layout::kGroupScales, 0);
      has_odd = has_odd || decoders_[nth].HasOddScale();
    }
    is_plain_ = !ptx::AnyInWarp(has_odd);
    if (is_plain_) Load(0, &groups_[0]);
  }

  // From group kNth on: the next one is loaded before a group is multiplied.
  template <int kNth>
  GEMMD_DEVICE void PlainTurn(std::int32_t left) {
    const Decoder decoder = decoders_[kNth];
    if constexpr (kNth + 1 < Layout::kTurnGroups) {
      Load(kNth + 1, &groups_[(kNth + 1) % 2]);
      if constexpr (kNth + 2 == Layout::kTurnGroups) Release();
      Multiply<false>(decoder, groups_[kNth % 2]);
      PlainTurn<kNth + 1>(left);
    } else {
      if (left > Layout::kTurnGroups) BeginTurn(left - Layout::kTurnGroups);
      Multiply<false>(decoder, groups_[kNth % 2]);
    }
  }

  // One group after another, by code that takes every scale.
  GEMMD_DEVICE void AnyTurn(std::int32_t left) {
    const std::int32_t count = left < Layout::kTurnGroups ? left : Layout::kTurnGroups;
    GEMMD_NO_UNROLL
    for (std::int32_t nth = 0; nth < count; ++nth) {
      Decoder decoder;
      decoder.Load(scales_ + nth * Layout::kGroupScales, 0);
      Group group;
      Load(nth, &group);
      Multiply<true>(decoder, group);
    }
    Release();
    if (left > Layout::kTurnGroups) BeginTurn(left - Layout::kTurnGroups);
  }

  GEMMD_DEVICE void Load(int nth, Group* group) const {
    const ptx::SharedAddress codes = codes_ + nth * Layout::kGroupCodes;
    GEMMD_UNROLL
    for (int load = 0; load < kCodeLoads; ++load) {
      group->words[load] = ptx::LoadShared<ptx::Vector4>(codes + load * 512);
    }
    GEMMD_UNROLL
    for (int load = 0; load < kLoads; ++load) {
      const int step = load * (kSteps / kLoads);
      ptx::LoadMatrix4(group->columns[load],
                       RowsAt<Layout>(rows_, nth * kGroupSlabs + step / 4, step % 4));
    }
  }

  // With what is needed of the turn in registers, its stages are free.
  GEMMD_DEVICE void Release() {
    ptx::SyncWarp();
    if (lane_ == 0) {
      ptx::MbarrierArrive(weights_full_ + (Layout::kWeightsEmpty - Layout::kWeightsFull));
      ptx::MbarrierArrive(rows_full_ + (Layout::kRowsEmpty - Layout::kRowsFull));
    }
    codes_ += Layout::kWeightStageBytes;
    scales_ += Layout::kWeightStageBytes;
    weights_full_ += 8;
    if (++weights_turn_ == Layout::kWeightStages) {
      weights_turn_ = 0;
      weights_parity_ ^= 1;
      codes_ -= Layout::kWeightStages * Layout::kWeightStageBytes;
      scales_ -= Layout::kWeightStages * Layout::kWeightStageBytes;
      weights_full_ -= Layout::kWeightStages * 8;
    }
    rows_ += Layout::kRowStageBytes;
    rows_full_ += 8;
    if (++rows_turn_ == Layout::kRowStages) {
      rows_turn_ = 0;
      rows_parity_ ^= 1;
      rows_ -= Layout::kRowStages * Layout::kRowStageBytes;
      rows_full_ -= Layout::kRowStages * 8;
    }
  }

  template <bool kAny>
  GEMMD_DEVICE void Multiply(const Decoder& decoder, const Group& group) {
    GEMMD_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      std::uint32_t words[Decoder::kStepWords];
      TakeWords<Decoder>(group.words, step, words);
      std::uint32_t fragment[4];
      decoder.template Decode<kAny>(words, step, fragment);
      GEMMD_UNROLL
      for (int eight = 0; eight < kEights; ++eight) {
        // A load has two steps of eight rows, or one of sixteen.
        const int load = kEights == 1 ? step / 2 : step;
        const int at = kEights == 1 ? step % 2 * 2 : eight * 2;
        const std::uint32_t b[2] = {group.columns[load][at], group.columns[load][at + 1]};
        Decoder::Rows::Multiply(sums_[eight], fragment, b);
      }
    }
  }

  GEMMD_DEVICE void Store() {
    const auto line = static_cast<std::int32_t>(ptx::BlockIndexX() * Layout::kBlockLines +
                                                strip_ * kStripLines + lane_ / 4);
    GEMMD_NO_UNROLL
    for (int i = 0; i < Layout::kSums; ++i) {
      float sum = sums_[0][0];
      GEMMD_UNROLL
      for (int j = 1; j < Layout::kSums; ++j) {
        if (i == j) sum = sums_[j / 4][j % 4];
      }
      sum *= factor_;
      const int side = i / 2 % 2;
      const auto row =
          params_.first_row + static_cast<std::int32_t>(i / 4 * 8 + lane_ % 4 * 2 + i % 2);
      if (params_.has_epilogue) {
        FinishElement(params_, sum, row, line + side * 8);
      } else {
        StoreElement(params_, sum, row, line + side * 8);
      }
    }
  }

  const QuantParams& params_;
  const std::uint32_t strip_;
  const std::uint32_t lane_;
  // Running addresses: of this lane, and of the mbarriers; where in a ring, and its parity.
  ptx::SharedAddress codes_;
  ptx::SharedAddress scales_;
  ptx::SharedAddress weights_full_;
  std::uint32_t weights_turn_ = 0;
  std::uint32_t weights_parity_ = 0;
  ptx::SharedAddress rows_;
  ptx::SharedAddress rows_full_;
  std::uint32_t rows_turn_ = 0;
  std::uint32_t rows_parity_ = 0;
  float factor_;
  bool is_plain_;  // the turn that is next
  Decoder decoders_[Layout::kTurnGroups];
  Group groups_[2];  // that which is multiplied, and the next
  float sums_[kEights][4];
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
