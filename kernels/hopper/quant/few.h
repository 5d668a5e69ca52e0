// The product of up to 16 rows of A: mma.sync with W as the first operand, so that 16 lines of W
// are a warp's and each row of A is a column of the instruction's.
//
// Order. The sum of a group of 128 of K is the instruction's own: eight steps of 16, ascending,
// from zero. Then total = fma(scale, sum, total) in f32, a group after another in ascending K. It
// is that of wide.h, and depends on nothing else: the bits of a row do not depend on M or the
// tiling.
//
// Weights that are exact in bf16 have another order: few_chain.h.
//
// The splits of a strip have groups of their own and exchange sums: each has a share of the values,
// to which it adds the sums of all splits in that order. A turn's sums are added a turn later, when
// the others have long written theirs.
#pragma once

#include <cmath>

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/few_chain.h"
#include "kernels/hopper/quant/few_layout.h"
#include "kernels/hopper/quant/few_loaders.h"
#include "kernels/hopper/quant/finish.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/bits.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// The values of an owner's share, in order: all of one side, and of four owners each half of that.
template <class Layout>
GEMMD_DEVICE constexpr int SideOf(int owner) {
  return owner * 2 / Layout::kSplits;
}
template <class Layout>
GEMMD_DEVICE constexpr int ShareIndex(int owner, int i) {
  const int nth = owner % (Layout::kSplits / 2) * Layout::kShare + i;
  return SumIndex(SideOf<Layout>(owner), nth / 2, nth % 2);
}

// The bytes that one instruction moves.
template <int kWords>
struct alignas(kWords * 4) Words {
  std::uint32_t word[kWords];
};

// A warp that multiplies. Its addresses run along with the rings: it is short of instructions, not
// of registers.
template <class Layout, class Decoder, std::uint32_t kSplit>
class FewWarp {
 public:
  GEMMD_DEVICE FewWarp(const QuantParams& params, ptx::SharedAddress base, std::uint32_t warp)
      : params_(params), strip_(warp % Layout::kStrips), lane_(ptx::LaneIndex()) {
    const std::uint32_t shared = ptx::Keep(base);
    const std::uint32_t stage = shared + Layout::kWeightsAt;
    // Groups of the stage that come before this warp's.
    const std::uint32_t before =
        strip_ / kChunkStrips * Layout::kTurnGroups + kSplit * Layout::kGroups;
    codes_ = ptx::Keep(stage + before * Layout::kGroupCodes + strip_ % kChunkStrips * kCodeBytes +
                       lane_ * 16);
    // Scales are there of whole chunks.
    const std::uint32_t strip = (ptx::BlockIndexX() * Layout::kStrips + strip_) % kChunkStrips;
    scales_ = ptx::Keep(stage + Layout::kScalesAt + before * Layout::kGroupScales +
                        strip * Decoder::kScaleBytes + lane_ / 4 * (Decoder::kScaleBytes / 8));
    if constexpr (Decoder::kHasZeros) {
      zeros_ = ptx::Keep(stage + Layout::kZerosAt + before * Layout::kGroupZeros +
                         strip * kZeroBytes + lane_ / 4 * 2);
    }
    weights_full_ = ptx::Keep(shared + Layout::kWeightsFull);
    rows_ = ptx::Keep(shared + Layout::kRowsAt + RowLineOf<Layout>(lane_, kSplit * kOwnSlabs));
    rows_full_ = ptx::Keep(shared + Layout::kRowsFull);
    slot_ = ptx::Keep(shared + Layout::kSlotsAt + SlotAt(kSplit) + lane_ * Layout::kPieceBytes);
    slot_scales_ =
        ptx::Keep(shared + Layout::kSlotsAt + SlotAt(kSplit) + Layout::kPartsBytes + lane_ / 4 * 4);
    exchanged_ = ptx::Keep(shared + Layout::kExchanged + strip_ * 8);
  }

  GEMMD_DEVICE void Run() {
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kShare; ++i) total_[i] = 0;
    LoadTurn(0);
    std::int32_t first = 0;  // group of the turn
    GEMMD_NO_UNROLL
    for (; first + Layout::kTurnGroups <= params_.k_groups; first += Layout::kTurnGroups) {
      Turn<true>(first);
    }
    if (first < params_.k_groups) {
      Turn<false>(first);
      first += Layout::kTurnGroups;
    }
    Add<false>(first - Layout::kTurnGroups);
    Store();
  }

 private:
  using Sums = float[Layout::kGroups][Layout::kSums];
  using Piece = Words<Layout::kPieceBytes / 4>;
  static constexpr int kPieceWords = Layout::kPieceBytes / 4;
  static constexpr int kLoads = Layout::kColumns == 8 ? 4 : 8;     // of ldmatrix, a group
  static constexpr int kOwnSlabs = Layout::kGroups * kGroupSlabs;  // of a turn
  // A's fragments of a turn are loaded at the end of the one before, unless there are too few
  // registers for them.
  static constexpr bool kLoadsAhead = Layout::kColumns == 8 || Layout::kGroups == 1;
  using Columns = std::uint32_t[kLoads][4];
  static constexpr int kPieceStride = Layout::kPieceBytes * 32;
  static constexpr int kExchangeBytes = Layout::kWarps * Layout::kSlotBytes;

  GEMMD_DEVICE std::uint32_t SlotAt(std::uint32_t split) const {
    return (split * Layout::kStrips + strip_) * Layout::kSlotBytes;
  }

  GEMMD_DEVICE std::int32_t GroupsLeft(std::int32_t first) const {
    return params_.k_groups - first - static_cast<std::int32_t>(kSplit) * Layout::kGroups;
  }

  // Loads what this warp multiplies in the turn from group `first` on, if it has any.
  GEMMD_DEVICE void LoadTurn(std::int32_t first) {
    const std::int32_t left = GroupsLeft(first);
    if (left <= 0) return;
    LoadWeights(left);
    if constexpr (kLoadsAhead) {
      ptx::MbarrierWait(rows_full_, rows_parity_);
      GEMMD_UNROLL
      for (int q = 0; q < Layout::kGroups; ++q) LoadColumns<0, kLoads>(q, columns_[q]);
      ReleaseRows();
    }
  }

  // Codes and scales. With them in registers their stage is free.
  GEMMD_DEVICE void LoadWeights(std::int32_t left) {
    ptx::MbarrierWait(weights_full_, weights_parity_);
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) {
      if (q >= left) continue;
      const std::uint32_t at = q * Layout::kGroupCodes;
      words_[q][0] = ptx::LoadShared<ptx::Vector4>(codes_ + at);
      words_[q][1] = ptx::LoadShared<ptx::Vector4>(codes_ + (at + kCodeBytes / 2));
      decoder_[q].Load(scales_ + q * Layout::kGroupScales, zeros_ + q * Layout::kGroupZeros);
    }
    ptx::SyncWarp();
    if (lane_ == 0) {
      ptx::MbarrierArrive(weights_full_ + (Layout::kWeightsEmpty - Layout::kWeightsFull));
    }
    MoveWeights(Layout::kWeightStageBytes);
    weights_full_ += 8;
    if (++weights_turn_ == Layout::kWeightStages) {
      weights_turn_ = 0;
      weights_parity_ ^= 1;
      MoveWeights(-Layout::kWeightStages * Layout::kWeightStageBytes);
      weights_full_ -= Layout::kWeightStages * 8;
    }
  }
  GEMMD_DEVICE void MoveWeights(int bytes) {
    codes_ += static_cast<std::uint32_t>(bytes);
    scales_ += static_cast<std::uint32_t>(bytes);
    if constexpr (Decoder::kHasZeros) zeros_ += static_cast<std::uint32_t>(bytes);
  }

  // Loads kFirst .. of group q.
  template <int kFirst, int kCount>
  GEMMD_DEVICE void LoadColumns(int q, Columns& columns) const {
    GEMMD_UNROLL
    for (int load = kFirst; load < kFirst + kCount; ++load) {
      const int step = load * (kSteps / kLoads);
      ptx::LoadMatrix4(columns[load], RowsAt<Layout>(rows_, q * kGroupSlabs + step / 4, step % 4));
    }
  }

  GEMMD_DEVICE void ReleaseRows() {
    ptx::SyncWarp();
    if (lane_ == 0) ptx::MbarrierArrive(rows_full_ + (Layout::kRowsEmpty - Layout::kRowsFull));
    rows_ += Layout::kRowStageBytes;
    rows_full_ += 8;
    if (++rows_turn_ == Layout::kRowStages) {
      rows_turn_ = 0;
      rows_parity_ ^= 1;
      rows_ -= Layout::kRowStages * Layout::kRowStageBytes;
      rows_full_ -= Layout::kRowStages * 8;
    }
  }

  // kWhole: all splits have all of their groups.
  template <bool kWhole>
  GEMMD_DEVICE void Turn(std::int32_t first) {
    static_assert(Layout::kGroups <= 2);
    Sums sums;
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kSums; ++i) sums[q][i] = 0;
    }
    const std::int32_t left = GroupsLeft(first);
    if (kWhole || left >= Layout::kGroups) {
      Multiply<Layout::kGroups>(sums);
    } else if (left > 0) {
      Multiply<1>(sums);
    }
    std::uint32_t scales[Layout::kGroups];
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) scales[q] = decoder_[q].scales;
    if (kWhole) LoadTurn(first + Layout::kTurnGroups);
    Write(sums, scales);
    if (first > 0) Add<true>(first - Layout::kTurnGroups);
    Keep(sums, scales);
    ++turn_;
  }

  // The first kCount groups that are loaded, interleaved.
  template <int kCount>
  GEMMD_DEVICE void Multiply(Sums& sums) {
    if constexpr (kLoadsAhead) {
      MultiplySteps<kCount, 0, kSteps>(sums, columns_);
    } else {
      ptx::MbarrierWait(rows_full_, rows_parity_);
      Columns columns[kCount];
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) LoadColumns<0, kLoads / 2>(q, columns[q]);
      MultiplySteps<kCount, 0, kSteps / 2>(sums, columns);
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) LoadColumns<kLoads / 2, kLoads / 2>(q, columns[q]);
      ReleaseRows();
      MultiplySteps<kCount, kSteps / 2, kSteps>(sums, columns);
    }
  }

  template <int kCount, int kFirst, int kEnd, int kLoaded>
  GEMMD_DEVICE void MultiplySteps(Sums& sums, const Columns (&columns)[kLoaded]) const {
    GEMMD_UNROLL
    for (int step = kFirst; step < kEnd; ++step) {
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) {
        std::uint32_t fragment[4];
        decoder_[q].Decode(WordOf(words_[q][step / 4], step % 4), step, fragment);
        if constexpr (Layout::kColumns == 8) {
          // Two steps a load.
          const int at = step % 2 * 2;
          const std::uint32_t b[2] = {columns[q][step / 2][at], columns[q][step / 2][at + 1]};
          MultiplyEight(sums[q], 0, fragment, b);
        } else {
          const std::uint32_t low[2] = {columns[q][step][0], columns[q][step][1]};
          const std::uint32_t high[2] = {columns[q][step][2], columns[q][step][3]};
          MultiplyEight(sums[q], 0, fragment, low);
          MultiplyEight(sums[q], 4, fragment, high);
        }
      }
    }
  }
  static GEMMD_DEVICE void MultiplyEight(float (&sums)[Layout::kSums], int at,
                                         const std::uint32_t (&fragment)[4],
                                         const std::uint32_t (&b)[2]) {
    float d[4] = {sums[at], sums[at + 1], sums[at + 2], sums[at + 3]};
    Decoder::Rows::Multiply(d, fragment, b);
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) sums[at + i] = d[i];
  }

  // Value i of an owner that is known as the code runs alone.
  static GEMMD_DEVICE float ValueOf(const float (&sums)[Layout::kSums], std::uint32_t owner,
                                    int i) {
    float value = sums[ShareIndex<Layout>(0, i)];
    GEMMD_UNROLL
    for (int o = 1; o < Layout::kSplits; ++o) {
      if (owner == static_cast<std::uint32_t>(o)) value = sums[ShareIndex<Layout>(o, i)];
    }
    return value;
  }

  // The others' parts of this turn's sums.
  GEMMD_DEVICE void Write(const Sums& sums, const std::uint32_t (&scales)[Layout::kGroups]) const {
    const std::uint32_t buffer = turn_ % kExchanges * kExchangeBytes;
    GEMMD_UNROLL
    for (int d = 1; d < Layout::kSplits; ++d) {
      const std::uint32_t owner = (kSplit + d) % Layout::kSplits;
      GEMMD_UNROLL
      for (int p = 0; p < Layout::kPieces; ++p) {
        Piece piece;
        GEMMD_UNROLL
        for (int w = 0; w < kPieceWords; ++w) {
          const int nth = p * kPieceWords + w;
          piece.word[w] =
              ptx::BitsOfFloat(ValueOf(sums[nth / Layout::kShare], owner, nth % Layout::kShare));
        }
        ptx::StoreShared(slot_ + buffer + ((d - 1) * Layout::kPieces + p) * kPieceStride, piece);
      }
    }
    if (lane_ % 4 == 0) {
      GEMMD_UNROLL
      for (int q = 0; q < Layout::kGroups; ++q) {
        ptx::StoreShared(slot_scales_ + buffer + q * 32, scales[q]);
      }
    }
    ptx::SyncWarp();
    if (lane_ == 0) {
      ptx::MbarrierArrive(exchanged_ + turn_ % kExchanges * (Layout::kStrips * 8));
    }
  }

  GEMMD_DEVICE void Keep(const Sums& sums, const std::uint32_t (&scales)[Layout::kGroups]) {
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) {
      own_scales_[q] = scales[q];
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kShare; ++i) own_[q][i] = ValueOf(sums[q], kSplit, i);
    }
  }

  // Adds the turn before the one at hand, whose first group is `first`.
  template <bool kWhole>
  GEMMD_DEVICE void Add(std::int32_t first) {
    const std::uint32_t turn = turn_ - 1;
    const std::uint32_t buffer = turn % kExchanges * kExchangeBytes;
    ptx::MbarrierWait(exchanged_ + turn % kExchanges * (Layout::kStrips * 8),
                      turn / kExchanges % 2);
    const std::uint32_t side = kSplit * 2 / Layout::kSplits;
    Piece parts[Layout::kSplits - 1]
               [Layout::kPieces];  // of those that follow this one, in a circle
    std::uint32_t scales[Layout::kSplits - 1][Layout::kGroups];
    GEMMD_UNROLL
    for (int d = 1; d < Layout::kSplits; ++d) {
      const std::uint32_t other = buffer + SlotAt((kSplit + d) % Layout::kSplits) - SlotAt(kSplit);
      GEMMD_UNROLL
      for (int p = 0; p < Layout::kPieces; ++p) {
        parts[d - 1][p] = ptx::LoadShared<Piece>(
            slot_ + other + ((Layout::kSplits - 1 - d) * Layout::kPieces + p) * kPieceStride);
      }
      GEMMD_UNROLL
      for (int q = 0; q < Layout::kGroups; ++q) {
        scales[d - 1][q] = ptx::LoadShared<std::uint32_t>(slot_scales_ + other + q * 32);
      }
    }
    GEMMD_UNROLL
    for (int from = 0; from < Layout::kSplits; ++from) {
      GEMMD_UNROLL
      for (int q = 0; q < Layout::kGroups; ++q) {
        if (!kWhole && first + from * Layout::kGroups + q >= params_.k_groups) continue;
        std::uint32_t scale = own_scales_[q];
        GEMMD_UNROLL
        for (int d = 1; d < Layout::kSplits; ++d) {
          if ((kSplit + d) % Layout::kSplits == static_cast<std::uint32_t>(from)) {
            scale = scales[d - 1][q];
          }
        }
        GEMMD_UNROLL
        for (int i = 0; i < Layout::kShare; ++i) {
          float sum = own_[q][i];
          GEMMD_UNROLL
          for (int d = 1; d < Layout::kSplits; ++d) {
            if ((kSplit + d) % Layout::kSplits == static_cast<std::uint32_t>(from)) {
              const int nth = q * Layout::kShare + i;
              sum = ptx::FloatOfBits(parts[d - 1][nth / kPieceWords].word[nth % kPieceWords]);
            }
          }
          total_[i] = std::fma(ScaleOf(scale, side), sum, total_[i]);
        }
      }
    }
  }

  GEMMD_DEVICE void Store() const {
    const auto line =
        static_cast<std::int32_t>(ptx::BlockIndexX() * Layout::kBlockLines + strip_ * kStripLines +
                                  lane_ / 4 + kSplit * 2 / Layout::kSplits * 8);
    const std::uint32_t part = kSplit % (Layout::kSplits / 2) * Layout::kShare;
    const auto row_of = [&](std::uint32_t i) {
      const std::uint32_t nth = part + i;
      return static_cast<std::int32_t>(nth / 2 * 8 + lane_ % 4 * 2 + nth % 2);
    };
    if (!params_.has_epilogue) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kShare; ++i) StoreElement(params_, total_[i], row_of(i), line);
      return;
    }
    GEMMD_NO_UNROLL
    for (int i = 0; i < Layout::kShare; ++i) {
      float sum = total_[0];
      GEMMD_UNROLL
      for (int j = 1; j < Layout::kShare; ++j) {
        if (i == j) sum = total_[j];
      }
      FinishElement(params_, sum, row_of(i), line);
    }
  }

  const QuantParams& params_;
  const std::uint32_t strip_;
  const std::uint32_t lane_;
  // Running addresses: of this lane, and of the mbarriers; where in a ring, and its parity.
  ptx::SharedAddress codes_;
  ptx::SharedAddress scales_;
  ptx::SharedAddress zeros_ = 0;  // where there are any
  ptx::SharedAddress weights_full_;
  std::uint32_t weights_turn_ = 0;
  std::uint32_t weights_parity_ = 0;
  ptx::SharedAddress rows_;
  ptx::SharedAddress rows_full_;
  std::uint32_t rows_turn_ = 0;
  std::uint32_t rows_parity_ = 0;
  ptx::SharedAddress slot_;
  ptx::SharedAddress slot_scales_;
  ptx::SharedAddress exchanged_;
  std::uint32_t turn_ = 0;
  // The turn's weights, the next one's from its end on.
  ptx::Vector4 words_[Layout::kGroups][2];
  Decoder decoder_[Layout::kGroups];
  Columns columns_[kLoadsAhead ? Layout::kGroups : 1];
  float total_[Layout::kShare];
  // This warp's share of the turn before, and its scales.
  float own_[Layout::kGroups][Layout::kShare];
  std::uint32_t own_scales_[Layout::kGroups];
};

// Splits do the same with other registers: code for each is shorter than code for all.
template <class Layout, class Decoder, std::uint32_t kSplit>
GEMMD_DEVICE void RunSplit(const QuantParams& params, ptx::SharedAddress base, std::uint32_t warp) {
  if (warp / Layout::kStrips == kSplit) {
    FewWarp<Layout, Decoder, kSplit> me(params, base, warp);
    me.Run();
    return;
  }
  if constexpr (kSplit + 1 < Layout::kSplits) {
    RunSplit<Layout, Decoder, kSplit + 1>(params, base, warp);
  }
}

template <int kTiling, class Decoder>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS((FewLayout<kTiling, Decoder>::kThreads),
                                      (FewLayout<kTiling, Decoder>::kBlocks))
    FewProduct(GEMMD_GRID_CONSTANT const QuantParams params) {
  using Layout = FewLayout<kTiling, Decoder>;
  const FewBlock<Layout> block = {ptx::SharedBase()};
  const std::uint32_t warp = ptx::Shuffle(ptx::ThreadIndex() / 32, 0);
  if (warp == Layout::kWarps) {
    FewWeightLoader<Layout, Decoder> weights(params, block);
    if (ptx::LaneIndex() == 0) {
      block.Initialise();
      if (params.weights_are_settled) weights.LoadFirst();
    }
    ptx::SyncWarp();
    ptx::SyncThreads();
    if (!params.weights_are_settled) ptx::WaitForPrecedingGrid();
    if (ptx::LaneIndex() == 0) weights.Run();
    ptx::SyncWarp();
  } else if (warp > Layout::kWarps) {
    if (ptx::LaneIndex() == 0) ptx::PrefetchTensorMap(&params.rows);
    ptx::SyncThreads();
    ptx::WaitForPrecedingGrid();
    if (ptx::LaneIndex() == 0) LoadRows(params, block);
    ptx::SyncWarp();
  } else {
    ptx::SyncThreads();
    // D may be written once a stage of A has come, so the preceding grid must have ended by then.
    // Waiting here costs no issue slots, as polling a stage's mbarrier would.
    ptx::WaitForPrecedingGrid();
    if constexpr (Decoder::kIsChain) {
      ChainWarp<Layout, Decoder> me(params, block.shared, warp);
      me.Run();
    } else {
      RunSplit<Layout, Decoder, 0>(params, block.shared, warp);
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
