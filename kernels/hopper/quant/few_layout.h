// The shared memory of a block of the product of few rows.
#pragma once

#include <type_traits>

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/table_decoder.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/mbarrier.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// Buffers of a turn's sums, from the warps that multiply to those that add.
inline constexpr int kSumBuffers = 2;

template <int kTiling, class Decoder>
struct FewLayout {
  static constexpr FewTiling kValues = FewTilingOf(Decoder::kFormat, kTiling);
  static constexpr bool kIsChain = Decoder::kIsChain;
  static constexpr int kBoxRows = kValues.rows;
  static constexpr int kColumns = kBoxRows < 8 ? 8 : kBoxRows;  // of the instructions
  static constexpr int kStrips = kValues.strips;
  static constexpr int kSplits = kValues.splits;
  static constexpr int kGroups = kValues.groups;
  static constexpr int kTurnGroups = kSplits * kGroups;
  static constexpr int kBlockLines = kStrips * kStripLines;
  static constexpr int kWarps = kStrips * kSplits;  // that multiply
  static constexpr int kAdders = kValues.adders;
  static constexpr int kAdderStrips = kIsChain ? kStrips : kStrips / kAdders;
  static constexpr int kThreads = (kWarps + kAdders + 2) * 32;
  static constexpr int kBlocks = kValues.blocks;

  static constexpr int kWeightStages = kValues.weight_stages;
  // A stage has a chunk's codes of the turn's groups, of the strips that are the block's, and then
  // the next chunk's; behind all codes the scales of whole chunks, and then their zero points.
  static constexpr int kChunks = kStrips < kChunkStrips ? 1 : kStrips / kChunkStrips;
  static constexpr int kGroupCodes = kStrips / kChunks * Decoder::kCodeBytes;
  static constexpr int kGroupScales = kChunkStrips * Decoder::kScaleBytes;
  static constexpr int kGroupShifts = Decoder::kHasShifts ? kChunkStrips * Decoder::kShiftBytes : 0;
  static constexpr int kScalesAt = kChunks * kTurnGroups * kGroupCodes;
  static constexpr int kShiftsAt = kScalesAt + kChunks * kTurnGroups * kGroupScales;
  static constexpr int kWeightStageBytes = kShiftsAt + kChunks * kTurnGroups * kGroupShifts;
  // A lies in slabs of 64 of K: swizzled lines of 128 bytes.
  static constexpr int kSlabBytes = kBoxRows * 128;
  static constexpr int kTurnSlabs = kTurnGroups * kGroupSlabs;
  static constexpr int kRowStages = kValues.row_stages;
  static constexpr int kRowBytes = kTurnSlabs * kSlabBytes;
  // Stages begin where the swizzle's pattern does.
  static constexpr int kRowStageBytes = (kRowBytes + 1023) / 1024 * 1024;

  static constexpr int kSums = kColumns / 2;                   // of a lane, for a group
  static constexpr int kPairBytes = Decoder::kScaleBytes / 8;  // of a pair of lines' scales
  // Sums of a group of a strip, and its scales, unless its parts have got theirs: of one row
  // OneRowSums of each pair of lines.
  using HandedScales = std::conditional_t<Decoder::kHasParts, NoScales, typename Decoder::Scales>;
  static constexpr int kHandedBytes = Decoder::kHasParts ? 0 : kPairBytes;
  static constexpr int kOneRowBytes = Decoder::kHasParts ? 8 : 16;
  static constexpr int kGroupSumBytes =
      kBoxRows == 1 ? 8 * kOneRowBytes : kSums * 4 * 32 + 8 * kHandedBytes;
  static constexpr int kStripSumBytes = kTurnGroups * kGroupSumBytes;
  static constexpr int kSumBufferBytes = kIsChain ? 0 : kStrips * kStripSumBytes;

  static constexpr int kRowsAt = 0;
  static constexpr int kWeightsAt = kRowStages * kRowStageBytes;
  static constexpr int kSumsAt = kWeightsAt + kWeightStages * kWeightStageBytes;
  static constexpr int kBarriersAt = kSumsAt + kSumBuffers * kSumBufferBytes;
  static constexpr int kWeightsFull = kBarriersAt;
  static constexpr int kWeightsEmpty = kWeightsFull + kWeightStages * 8;
  static constexpr int kRowsFull = kWeightsEmpty + kWeightStages * 8;
  static constexpr int kRowsEmpty = kRowsFull + kRowStages * 8;
  static constexpr int kSumsFull = kRowsEmpty + kRowStages * 8;
  static constexpr int kSumsEmpty = kSumsFull + kSumBuffers * kAdders * 8;
  static constexpr int kBarriersEnd = kSumsEmpty + kSumBuffers * kAdders * 8;
  static constexpr int kTableAt =
      Decoder::kHasTable ? (kBarriersEnd + 127) / 128 * 128 : kBarriersEnd;
  static constexpr int kSharedBytes = kTableAt + (Decoder::kHasTable ? kTableBytes : 0);

  // Slabs of a row are lines of the pattern: a warp's must not run over its end.
  static_assert(kRowBytes % 1024 == 0 || kRowBytes < 1024);
  static_assert(kBoxRows == 1 || kBoxRows == 8 || kBoxRows == 16);
  static_assert(kWeightStageBytes % 16 == 0 && kSumsAt % 16 == 0 && kBarriersAt % 8 == 0);
  // A multiprocessor has 228 KB, of which each block costs one more.
  static_assert(kBlocks * (kSharedBytes + 1024) <= 228 * 1024 && kSharedBytes <= 227 * 1024);
};

// Sums of a pair of lines, with their scales, where A has one row.
template <class Scales>
struct alignas(16) OneRowSums {
  float of[2];
  Scales scales;
};
template <>
struct alignas(8) OneRowSums<NoScales> {
  float of[2];
};

// A lane's line of ldmatrix in a stage, from slab `slab` on. A row that A does not have is zeros;
// where the slab has one row, that row is all.
template <class Layout>
GEMMD_DEVICE std::uint32_t RowLineOf(std::uint32_t lane, std::uint32_t slab) {
  const std::uint32_t row = Layout::kBoxRows == 1   ? 0
                            : Layout::kBoxRows == 8 ? lane % 8
                                                    : lane / 16 * 8 + lane % 8;
  const std::uint32_t line = slab * Layout::kBoxRows + row;
  const std::uint32_t sixteen = Layout::kColumns == 8 ? lane / 8 : lane / 8 % 2;
  return line * 128 + (sixteen ^ (line % 8)) * 16;
}
// The place of step `step` of the four of a slab, so many slabs behind that line: its address with
// some bits turned, which say which 16 bytes of the line.
template <class Layout>
GEMMD_DEVICE ptx::SharedAddress RowsAt(ptx::SharedAddress line, int slab, int step) {
  const int turned = step * 32 ^ (Layout::kBoxRows == 1 ? slab % 8 * 16 : 0);
  return (line ^ static_cast<std::uint32_t>(turned)) +
         static_cast<std::uint32_t>(slab * Layout::kSlabBytes);
}

template <class Layout>
struct FewBlock {
  ptx::SharedAddress shared;

  GEMMD_DEVICE ptx::SharedAddress WeightsFull(std::uint32_t stage) const {
    return shared + Layout::kWeightsFull + stage * 8;
  }
  GEMMD_DEVICE ptx::SharedAddress WeightsEmpty(std::uint32_t stage) const {
    return shared + Layout::kWeightsEmpty + stage * 8;
  }
  GEMMD_DEVICE ptx::SharedAddress RowsFull(std::uint32_t stage) const {
    return shared + Layout::kRowsFull + stage * 8;
  }
  GEMMD_DEVICE ptx::SharedAddress RowsEmpty(std::uint32_t stage) const {
    return shared + Layout::kRowsEmpty + stage * 8;
  }
  GEMMD_DEVICE ptx::SharedAddress SumsOf(std::uint32_t buffer, std::uint32_t strip) const {
    return shared + Layout::kSumsAt + buffer * Layout::kSumBufferBytes +
           strip * Layout::kStripSumBytes;
  }
  GEMMD_DEVICE ptx::SharedAddress SumsFull(std::uint32_t buffer, std::uint32_t adder) const {
    return shared + Layout::kSumsFull + (buffer * Layout::kAdders + adder) * 8;
  }
  GEMMD_DEVICE ptx::SharedAddress SumsEmpty(std::uint32_t buffer, std::uint32_t adder) const {
    return SumsFull(buffer, adder) + (Layout::kSumsEmpty - Layout::kSumsFull);
  }

  GEMMD_DEVICE void Initialise() const {
    for (std::uint32_t s = 0; s < Layout::kWeightStages; ++s) {
      ptx::MbarrierInit(WeightsFull(s), 1);
      ptx::MbarrierInit(WeightsEmpty(s), Layout::kWarps);
    }
    for (std::uint32_t s = 0; s < Layout::kRowStages; ++s) {
      ptx::MbarrierInit(RowsFull(s), 1);
      ptx::MbarrierInit(RowsEmpty(s), Layout::kWarps);
    }
    if constexpr (!Layout::kIsChain) {
      for (std::uint32_t b = 0; b < kSumBuffers; ++b) {
        for (std::uint32_t adder = 0; adder < Layout::kAdders; ++adder) {
          ptx::MbarrierInit(SumsFull(b, adder), Layout::kAdderStrips * Layout::kSplits);
          ptx::MbarrierInit(SumsEmpty(b, adder), 1);
        }
      }
    }
    ptx::FenceMbarrierInit();
  }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
