// The product of up to 16 rows of A: mma.sync with W as the first operand, so that 16 lines of W
// are a warp's and each row of A is a column of the instruction's.
//
// Order. The sum of a group of 128 of K is the instruction's own: eight steps of 16, ascending,
// from zero. Then total = fma(scale, sum, total) in f32, a group after another in ascending K.
// Where a scale is for 32 or 64 of K, a group has parts, each of which has such a sum, of two or
// four steps; then group = fma(scale, sum, group) from zero, a part after another, and
// total = total + group. Offsets make parts too: behind each fma of a part's scale comes group =
// fma(offset, rows, group), where rows is the sum of A's elements of the part, by the instruction's
// own steps, from zero. The order is that of wide.h, and depends on nothing else: the bits of a
// row do not depend on M or the tiling.
//
// Weights that are exact in bf16 have another order: few_chain.h.
//
// The splits of a strip are warps that have groups of their own. They hand the groups' sums, with
// their scales if they have not got them, to a warp that adds those of some strips in that order:
// what all splits run is one piece of code, which the instruction cache holds.
#pragma once

#include <cmath>

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/few_chain.h"
#include "kernels/hopper/quant/few_layout.h"
#include "kernels/hopper/quant/few_loaders.h"
#include "kernels/hopper/quant/finish.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/hopper/quant/table_decoder.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/bits.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// A warp that multiplies. Its addresses run along with the rings: it is short of instructions, not
// of registers.
template <class Layout, class Decoder>
class FewWarp {
 public:
  GEMMD_DEVICE FewWarp(const QuantParams& params, const FewBlock<Layout>& block, std::uint32_t warp)
      : params_(params), split_(warp / Layout::kStrips), lane_(ptx::LaneIndex()) {
    const std::uint32_t strip_of_block = warp % Layout::kStrips;
    const std::uint32_t shared = ptx::Keep(block.shared);
    const std::uint32_t stage = shared + Layout::kWeightsAt;
    // Groups of the stage that come before this warp's, and those that have scales of their own.
    const std::uint32_t of_chunks = strip_of_block / kChunkStrips * Layout::kTurnGroups;
    const std::uint32_t before = of_chunks + split_ * Layout::kGroups;
    const std::uint32_t scales_before = of_chunks + split_ * Layout::kGroups * ScaleStep();
    codes_ = ptx::Keep(stage + before * Layout::kGroupCodes +
                       strip_of_block % kChunkStrips * Decoder::kCodeBytes + lane_ * 16);
    // Scales are there of whole chunks.
    const std::uint32_t strip =
        (ptx::BlockIndexX() * Layout::kStrips + strip_of_block) % kChunkStrips;
    scales_ = ptx::Keep(stage + Layout::kScalesAt + scales_before * Layout::kGroupScales +
                        strip * Decoder::kScaleBytes + lane_ / 4 * Layout::kPairBytes);
    if constexpr (Decoder::kHasShifts) {
      shifts_ = ptx::Keep(stage + Layout::kShiftsAt + scales_before * Layout::kGroupShifts +
                          strip * Decoder::kShiftBytes + lane_ / 4 * (Decoder::kShiftBytes / 8));
    }
    weights_full_ = ptx::Keep(shared + Layout::kWeightsFull);
    rows_ = ptx::Keep(shared + Layout::kRowsAt + RowLineOf<Layout>(lane_, split_ * kOwnSlabs));
    rows_full_ = ptx::Keep(shared + Layout::kRowsFull);
    sums_at_ = ptx::Keep(block.SumsOf(0, strip_of_block) +
                         split_ * Layout::kGroups * Layout::kGroupSumBytes);
    sums_full_ = ptx::Keep(block.SumsFull(0, strip_of_block / Layout::kAdderStrips));
    if constexpr (Decoder::kHasTable) {
      GEMMD_UNROLL
      for (int q = 0; q < Layout::kGroups; ++q) decoder_[q].SetTable(shared + Layout::kTableAt);
    }
  }

  GEMMD_DEVICE void Run() {
    LoadTurn(0);
    std::int32_t first = 0;  // group of the turn
    GEMMD_NO_UNROLL
    for (; first + Layout::kTurnGroups <= params_.k_groups; first += Layout::kTurnGroups) {
      Turn<true>(first);
    }
    if (first < params_.k_groups) Turn<false>(first);
  }

 private:
  using Sums = float[Layout::kGroups][Layout::kSums];
  using Scales = typename Layout::HandedScales;
  static constexpr int kCodeLoads = Decoder::kCodeLoads;           // a group
  static constexpr int kLoads = Layout::kColumns == 8 ? 4 : 8;     // of ldmatrix, a group
  static constexpr int kOwnSlabs = Layout::kGroups * kGroupSlabs;  // of a turn
  // A's fragments of a turn are loaded at the end of the one before, unless there are too few
  // registers for them: for two groups of 16 rows or of two terms, or beside sums of parts.
  static constexpr bool kLoadsAhead = Layout::kColumns == 8
                                          ? Layout::kGroups == 1 || Decoder::kTerms == 1
                                          : Layout::kGroups == 1 && Decoder::kParts == 1;
  static_assert(kLoadsAhead || Decoder::kPartSteps <= kSteps / 2 || !Decoder::kHasParts,
                "a part is of columns that are loaded together");
  using Columns = std::uint32_t[kLoads][4];

  // From a group's scales to the next one's, in groups.
  GEMMD_DEVICE std::uint32_t ScaleStep() const { return params_.scales_are_of_lines ? 0 : 1; }

  GEMMD_DEVICE std::int32_t GroupsLeft(std::int32_t first) const {
    return params_.k_groups - first - static_cast<std::int32_t>(split_) * Layout::kGroups;
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
      GEMMD_UNROLL
      for (int load = 0; load < kCodeLoads; ++load) {
        words_[q][load] = ptx::LoadShared<ptx::Vector4>(codes_ + (at + load * 512));
      }
      const std::uint32_t of_scales = q * ScaleStep();
      decoder_[q].Load(scales_ + of_scales * Layout::kGroupScales,
                       shifts_ + of_scales * Layout::kGroupShifts);
      if constexpr (Decoder::kHasOffsets) {
        offsets_[q] = LoadAll<typename Decoder::Scales>(shifts_ + of_scales * Layout::kGroupShifts);
      }
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
    if constexpr (Decoder::kHasShifts) shifts_ += static_cast<std::uint32_t>(bytes);
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
    SetZero(sums);
    const std::int32_t left = GroupsLeft(first);
    if (kWhole || left >= Layout::kGroups) {
      Multiply<Layout::kGroups>(sums);
    } else if (left > 0) {
      Multiply<1>(sums);
    }
    Scales scales[Layout::kGroups] = {};
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) {
      if (!kWhole && q >= left) continue;
      if constexpr (!Decoder::kHasParts) scales[q] = WholeScales(q);
    }
    if (kWhole) LoadTurn(first + Layout::kTurnGroups);
    HandOver<kWhole>(sums, scales, left);
  }

  // Those of group q, all of which is decoded.
  GEMMD_DEVICE typename Decoder::Scales WholeScales(int q) const {
    typename Decoder::Scales scales = decoder_[q].scales;
    if constexpr (Decoder::kHasNan) {
      if (ptx::AnyInWarp(decoder_[q].HasNan())) decoder_[q].PoisonLines(scales);
    }
    return scales;
  }

  GEMMD_DEVICE static void SetZero(Sums& sums) {
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kSums; ++i) sums[q][i] = 0;
    }
  }

  // The first kCount groups that are loaded, interleaved.
  template <int kCount>
  GEMMD_DEVICE void Multiply(Sums& sums) {
    if constexpr (Decoder::kHasOddCodes) {
      if (ptx::AnyInWarp(HasOddCode<kCount>())) {
        MultiplyLoaded<kCount, true>(sums);
        return;
      }
    }
    MultiplyLoaded<kCount, false>(sums);
  }
  template <int kCount>
  GEMMD_DEVICE bool HasOddCode() const {
    std::uint32_t odd = 0;
    GEMMD_UNROLL
    for (int q = 0; q < kCount; ++q) {
      GEMMD_UNROLL
      for (int load = 0; load < kCodeLoads; ++load) {
        GEMMD_UNROLL
        for (int w = 0; w < 4; ++w) odd |= Decoder::OddBits(WordOf(words_[q][load], w));
      }
    }
    return odd != 0;
  }

  // kAny: by code that takes every code of B.
  template <int kCount, bool kAny>
  GEMMD_DEVICE void MultiplyLoaded(Sums& sums) {
    if constexpr (kLoadsAhead) {
      MultiplyParts<kCount, kAny, 0, kSteps>(sums, columns_);
    } else {
      ptx::MbarrierWait(rows_full_, rows_parity_);
      Columns columns[kCount];
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) LoadColumns<0, kLoads / 2>(q, columns[q]);
      MultiplyParts<kCount, kAny, 0, kSteps / 2>(sums, columns);
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) LoadColumns<kLoads / 2, kLoads / 2>(q, columns[q]);
      ReleaseRows();
      MultiplyParts<kCount, kAny, kSteps / 2, kSteps>(sums, columns);
    }
  }

  // Steps of whole parts, of groups that have some.
  template <int kCount, bool kAny, int kFirst, int kEnd, int kLoaded>
  GEMMD_DEVICE void MultiplyParts(Sums& sums, const Columns (&columns)[kLoaded]) {
    if constexpr (!Decoder::kHasParts) {
      MultiplySteps<kCount, kAny, kFirst, kEnd>(sums, columns);
    } else if constexpr (kFirst < kEnd) {
      constexpr int kNext = kFirst + Decoder::kPartSteps;
      Sums part;
      SetZero(part);
      MultiplySteps<kCount, kAny, kFirst, kNext>(part, columns);
      Sums rows;
      if constexpr (Decoder::kHasOffsets) SumRows<kCount, kFirst, kNext>(rows, columns);
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) {
        AddPart<kFirst / Decoder::kPartSteps>(q, part[q], rows[q], sums[q]);
      }
      MultiplyParts<kCount, kAny, kNext, kEnd>(sums, columns);
    }
  }
  template <int kPart>
  GEMMD_DEVICE void AddPart(int q, const float (&part)[Layout::kSums],
                            const float (&rows)[Layout::kSums],
                            float (&sums)[Layout::kSums]) const {
    const typename Decoder::Scales scales =
        kPart + 1 == Decoder::kParts ? WholeScales(q) : decoder_[q].scales;
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kSums; ++i) {
      const float scale = ScaleOf(scales, i / 2 % 2, kPart, params_.scales_are_bf16);
      sums[i] = std::fma(scale, part[i], sums[i]);
      if constexpr (Decoder::kHasOffsets) {
        const float offset = ScaleOf(offsets_[q], i / 2 % 2, kPart, params_.scales_are_bf16);
        sums[i] = std::fma(offset, rows[i], sums[i]);
      }
    }
  }
  // The sums of A's elements in steps [kFirst, kEnd): products by ones.
  template <int kCount, int kFirst, int kEnd, int kLoaded>
  GEMMD_DEVICE void SumRows(Sums& rows, const Columns (&columns)[kLoaded]) const {
    constexpr std::uint32_t kOnes = Decoder::Rows::kOneBits * 0x00010001;
    constexpr std::uint32_t kFragment[4] = {kOnes, kOnes, kOnes, kOnes};
    SetZero(rows);
    GEMMD_UNROLL
    for (int step = kFirst; step < kEnd; ++step) {
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) MultiplyStep(rows[q], kFragment, columns[q], step);
    }
  }

  template <int kCount, bool kAny, int kFirst, int kEnd, int kLoaded>
  GEMMD_DEVICE void MultiplySteps(Sums& sums, const Columns (&columns)[kLoaded]) {
    GEMMD_UNROLL
    for (int step = kFirst; step < kEnd; ++step) {
      GEMMD_UNROLL
      for (int q = 0; q < kCount; ++q) {
        std::uint32_t words[Decoder::kStepWords];
        TakeWords<Decoder>(words_[q], step, words);
        std::uint32_t fragments[Decoder::kTerms][4];
        DecodeStep<kAny>(decoder_[q], words, step, fragments);
        GEMMD_UNROLL
        for (int term = 0; term < Decoder::kTerms; ++term) {
          MultiplyStep(sums[q], fragments[term], columns[q], step);
        }
      }
    }
  }
  static GEMMD_DEVICE void MultiplyStep(float (&sums)[Layout::kSums],
                                        const std::uint32_t (&fragment)[4], const Columns& columns,
                                        int step) {
    if constexpr (Layout::kColumns == 8) {
      // Two steps a load.
      const int at = step % 2 * 2;
      const std::uint32_t b[2] = {columns[step / 2][at], columns[step / 2][at + 1]};
      MultiplyEight(sums, 0, fragment, b);
    } else {
      const std::uint32_t low[2] = {columns[step][0], columns[step][1]};
      const std::uint32_t high[2] = {columns[step][2], columns[step][3]};
      MultiplyEight(sums, 0, fragment, low);
      MultiplyEight(sums, 4, fragment, high);
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

  // Writes the turn's sums to the next buffer, once the sums of two turns before are added.
  template <bool kWhole>
  GEMMD_DEVICE void HandOver(const Sums& sums, const Scales (&scales)[Layout::kGroups],
                             std::int32_t left) {
    if (sums_turn_ >= kSumBuffers) {
      ptx::MbarrierWait(sums_full_ + (Layout::kSumsEmpty - Layout::kSumsFull),
                        (sums_turn_ / kSumBuffers - 1) % 2);
    }
    GEMMD_UNROLL
    for (int q = 0; q < Layout::kGroups; ++q) {
      if (kWhole || q < left) Write(sums_at_ + q * Layout::kGroupSumBytes, sums[q], scales[q]);
    }
    ptx::SyncWarp();
    if (lane_ == 0) ptx::MbarrierArrive(sums_full_);
    ++sums_turn_;
    const bool is_back = sums_turn_ % kSumBuffers == 0;
    sums_at_ += is_back ? -(kSumBuffers - 1) * Layout::kSumBufferBytes : Layout::kSumBufferBytes;
    sums_full_ += is_back ? -(kSumBuffers - 1) * Layout::kAdders * 8 : Layout::kAdders * 8;
  }
  GEMMD_DEVICE void Write(ptx::SharedAddress to, const float (&sums)[Layout::kSums],
                          const Scales& scales) const {
    if constexpr (Layout::kBoxRows == 1) {
      // All eight columns are one row: the first is handed over.
      OneRowSums<Scales> row;
      row.of[0] = sums[0];
      row.of[1] = sums[2];
      if constexpr (!Decoder::kHasParts) row.scales = scales;
      if (lane_ % 4 == 0) ptx::StoreShared(to + lane_ / 4 * Layout::kOneRowBytes, row);
    } else {
      GEMMD_UNROLL
      for (int eight = 0; eight < Layout::kSums / 4; ++eight) {
        SumsOfRow<4> four;
        GEMMD_UNROLL
        for (int i = 0; i < 4; ++i) four.value[i] = sums[eight * 4 + i];
        ptx::StoreShared(to + eight * 512 + lane_ * 16, four);
      }
      if constexpr (!Decoder::kHasParts) {
        if (lane_ % 4 == 0) {
          ptx::StoreShared(to + Layout::kSums * 128 + lane_ / 4 * Layout::kPairBytes, scales);
        }
      }
    }
  }

  const QuantParams& params_;
  const std::uint32_t split_;
  const std::uint32_t lane_;
  // Running addresses: of this lane, and of the mbarriers; where in a ring, and its parity.
  ptx::SharedAddress codes_;
  ptx::SharedAddress scales_;
  ptx::SharedAddress shifts_ = 0;  // where there are any
  ptx::SharedAddress weights_full_;
  std::uint32_t weights_turn_ = 0;
  std::uint32_t weights_parity_ = 0;
  ptx::SharedAddress rows_;
  ptx::SharedAddress rows_full_;
  std::uint32_t rows_turn_ = 0;
  std::uint32_t rows_parity_ = 0;
  ptx::SharedAddress sums_at_;
  ptx::SharedAddress sums_full_;
  std::uint32_t sums_turn_ = 0;
  // The turn's weights, the next one's from its end on.
  ptx::Vector4 words_[Layout::kGroups][kCodeLoads];
  Decoder decoder_[Layout::kGroups];
  typename Decoder::Scales offsets_[Layout::kGroups];  // where there are any
  Columns columns_[kLoadsAhead ? Layout::kGroups : 1];
};

// A warp that adds the sums of kAdderStrips strips, and stores their totals.
template <class Layout, class Decoder>
class AddingWarp {
 public:
  GEMMD_DEVICE AddingWarp(const QuantParams& params, const FewBlock<Layout>& block,
                          std::uint32_t adder)
      : params_(params), block_(block), adder_(adder), lane_(ptx::LaneIndex()) {}

  GEMMD_DEVICE void Run() {
    GEMMD_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      GEMMD_UNROLL
      for (int i = 0; i < kTotals; ++i) totals_[s][i] = 0;
    }
    mma::RingPosition<kSumBuffers> ring;
    GEMMD_NO_UNROLL
    for (std::int32_t left = params_.k_groups; left > 0; left -= Layout::kTurnGroups) {
      ptx::MbarrierWait(block_.SumsFull(ring.stage, adder_), ring.parity);
      if (left >= Layout::kTurnGroups) {
        AddTurn<true>(ring.stage, left);
      } else {
        AddTurn<false>(ring.stage, left);
      }
      ptx::SyncWarp();
      if (lane_ == 0) ptx::MbarrierArrive(block_.SumsEmpty(ring.stage, adder_));
      ring.Next();
    }
    Store();
  }

 private:
  using Scales = typename Layout::HandedScales;
  static constexpr bool kIsOneRow = Layout::kBoxRows == 1;
  // Where A has one row a lane has two lines of one strip: there are as many lanes as pairs.
  static constexpr int kStrips = kIsOneRow ? 1 : Layout::kAdderStrips;
  static constexpr int kTotals = kIsOneRow ? 2 : Layout::kSums;
  static_assert(!kIsOneRow || Layout::kStrips <= 4);

  GEMMD_DEVICE std::uint32_t FirstStrip() const {
    return kIsOneRow ? lane_ / 8 % Layout::kStrips : adder_ * Layout::kAdderStrips;
  }

  // All of the turn's groups, or the first `left`.
  template <bool kWhole>
  GEMMD_DEVICE void AddTurn(std::uint32_t buffer, std::int32_t left) {
    GEMMD_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      const ptx::SharedAddress sums =
          block_.SumsOf(buffer, FirstStrip() + static_cast<std::uint32_t>(s));
      GEMMD_UNROLL
      for (int g = 0; g < Layout::kTurnGroups; ++g) {
        if (kWhole || g < left) AddGroup(totals_[s], sums + g * Layout::kGroupSumBytes);
      }
    }
  }
  GEMMD_DEVICE void AddGroup(float (&totals)[kTotals], ptx::SharedAddress from) const {
    if constexpr (kIsOneRow) {
      const auto row = ptx::LoadShared<OneRowSums<Scales>>(from + lane_ % 8 * Layout::kOneRowBytes);
      Scales scales;
      if constexpr (!Decoder::kHasParts) scales = row.scales;
      GEMMD_UNROLL
      for (int side = 0; side < 2; ++side) {
        const float scale = ScaleOf(scales, side, 0, params_.scales_are_bf16);
        totals[side] = std::fma(scale, row.of[side], totals[side]);
      }
    } else {
      Scales scales;
      if constexpr (!Decoder::kHasParts) {
        scales =
            ptx::LoadShared<Scales>(from + Layout::kSums * 128 + lane_ / 4 * Layout::kPairBytes);
      }
      GEMMD_UNROLL
      for (int eight = 0; eight < Layout::kSums / 4; ++eight) {
        const auto four = ptx::LoadShared<SumsOfRow<4>>(from + eight * 512 + lane_ * 16);
        GEMMD_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float scale = ScaleOf(scales, i / 2, 0, params_.scales_are_bf16);
          totals[eight * 4 + i] = std::fma(scale, four.value[i], totals[eight * 4 + i]);
        }
      }
    }
  }

  GEMMD_DEVICE void Store() const {
    const std::uint32_t first_line =
        ptx::BlockIndexX() * Layout::kBlockLines + FirstStrip() * kStripLines;
    if constexpr (kIsOneRow) {
      if (lane_ / 8 >= Layout::kStrips) return;
      const auto line = static_cast<std::int32_t>(first_line + lane_ % 8);
      StoreTotal(totals_[0][0], params_.first_row, line);
      StoreTotal(totals_[0][1], params_.first_row, line + 8);
    } else {
      // A launch meets this code cold: that of an epilogue exists once.
      GEMMD_NO_UNROLL
      for (int i = 0; i < kStrips * kTotals; ++i) {
        float total = totals_[0][0];
        GEMMD_UNROLL
        for (int j = 1; j < kStrips * kTotals; ++j) {
          if (i == j) total = totals_[j / kTotals][j % kTotals];
        }
        const auto row = params_.first_row +
                         static_cast<std::int32_t>(i % kTotals / 4 * 8 + lane_ % 4 * 2 + i % 2);
        const auto line = static_cast<std::int32_t>(first_line + lane_ / 4) +
                          i / kTotals * kStripLines + i / 2 % 2 * 8;
        StoreTotal(total, row, line);
      }
    }
  }
  GEMMD_DEVICE void StoreTotal(float total, std::int32_t row, std::int32_t line) const {
    if (params_.has_epilogue) {
      FinishElement(params_, total, row, line);
    } else {
      StoreElement(params_, total, row, line);
    }
  }

  const QuantParams& params_;
  const FewBlock<Layout>& block_;
  const std::uint32_t adder_;
  const std::uint32_t lane_;
  float totals_[kStrips][kTotals];
};

// A block, whose rows have the parameters `params`. Its tensor map and the codes' table are read
// where all blocks have them.
template <int kTiling, class Decoder>
GEMMD_DEVICE void RunFewBlock(const QuantParams& params, const QuantParams& all) {
  using Layout = FewLayout<kTiling, Decoder>;
  const FewBlock<Layout> block = {ptx::SharedBase()};
  const std::uint32_t warp = ptx::Shuffle(ptx::ThreadIndex() / 32, 0);
  constexpr std::uint32_t kFirstLoader = Layout::kWarps + Layout::kAdders;
  if (warp == kFirstLoader) {
    FewWeightLoader<Layout, Decoder> weights(params, block);
    if (ptx::LaneIndex() == 0) block.Initialise();
    ptx::SyncWarp();
    if (params.weights_are_settled) weights.LoadFirst();
    ptx::SyncThreads();
    if (!params.weights_are_settled) ptx::WaitForPrecedingGrid();
    weights.Run();
  } else if (warp > kFirstLoader) {
    if (ptx::LaneIndex() == 0) ptx::PrefetchTensorMap(&all.rows);
    ptx::SyncThreads();
    ptx::WaitForPrecedingGrid();
    if (ptx::LaneIndex() == 0) LoadRows(all.rows, params, block);
    ptx::SyncWarp();
  } else {
    if constexpr (Decoder::kHasTable) {
      WriteTable<Decoder::kTerms>(all, block.shared + Layout::kTableAt, ptx::ThreadIndex(),
                                  kFirstLoader * 32);
    }
    ptx::SyncThreads();
    // D may be written once a stage of A has come, so the preceding grid must have ended by then.
    // Waiting here costs no issue slots, as polling a stage's mbarrier would.
    ptx::WaitForPrecedingGrid();
    if constexpr (Decoder::kIsChain) {
      ChainWarp<Layout, Decoder> me(params, block.shared, warp);
      me.Run();
    } else if (warp < Layout::kWarps) {
      FewWarp<Layout, Decoder> me(params, block, warp);
      me.Run();
    } else {
      AddingWarp<Layout, Decoder> me(params, block, warp - Layout::kWarps);
      me.Run();
    }
  }
}

template <int kTiling, class Decoder>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS((FewLayout<kTiling, Decoder>::kThreads),
                                      (FewLayout<kTiling, Decoder>::kBlocks))
    FewProduct(GEMMD_GRID_CONSTANT const QuantParams params) {
  RunFewBlock<kTiling, Decoder>(params, params);
}

// The grid's second dimension has groups, of no more rows than the tiling.
template <int kTiling, class Decoder>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS((FewLayout<kTiling, Decoder>::kThreads),
                                      (FewLayout<kTiling, Decoder>::kBlocks))
    FewGroups(GEMMD_GRID_CONSTANT const QuantGroupParams params) {
  const GroupRows& group = params.groups[ptx::BlockIndexY()];
  RunFewBlock<kTiling, Decoder>(ParamsOf(params, {group.begin, group.end, group.product}), params);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
