// The product of many rows of A: wgmma with W's fragments from registers, D transposed = W times A
// transposed. Codes are decoded while the batch of steps before is multiplied.
//
// Order, of integers. That of few.h: the sum of a group of 128 of K is eight steps of 16,
// ascending, from zero; then total = fma(scale, sum, total), a group after another. Where a scale
// is for 32 or 64 of K each part has such a sum, group = fma(scale, sum, group) from zero, and
// total = total + group; with offsets group = fma(offset, rows, group) behind each, where rows is
// the sum of A's elements of the part (row_sums.h). wgmma's steps add as mma.sync's do
// (kernels/emulator/arithmetic/tensor_core.h), so the bits of a row do not depend on M or the
// tiling.
//
// Weights that are exact in bf16 are one chain over K, as in few_chain.h: wgmma adds to the totals
// themselves, and need not have ended where a group of K does.
#pragma once

#include <cmath>

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/finish.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/hopper/quant/table_decoder.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/bulk_copy.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/registers.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::quant {

// Named barriers: this and the next of a warpgroup by itself, and one for the second's first step.
inline constexpr std::uint32_t kGroupBarrier = 1;
inline constexpr std::uint32_t kStaggerBarrier = 3;

inline constexpr int kWarpgroup = 128;

inline namespace GEMMD_BACKEND {

template <int kTiling, class Decoder>
struct WideLayout {
  static constexpr WideTiling kValues = WideTilingOf(Decoder::kFormat, kTiling);
  static constexpr int kRows = kValues.rows;
  static constexpr int kGroups = kValues.groups;
  static constexpr int kLineBlocks = kValues.line_blocks;
  static constexpr int kCluster = kValues.cluster;
  static constexpr int kStages = kValues.stages;
  // A part of a group is one batch, or two. A batch has registers for four fragments.
  static constexpr int kPartBatch =
      Decoder::kPartSteps < 4 ? Decoder::kPartSteps : 4 / Decoder::kTerms;
  static constexpr int kBatch = Decoder::kHasParts ? kPartBatch : kValues.batch;
  static constexpr int kBatches = kSteps / kBatch;  // of a group of K
  static constexpr int kTileChunks = kGroups * kLineBlocks;
  static constexpr int kTileLines = kTileChunks * kChunkLines;
  // Two warpgroups take registers from a third, of which two threads load.
  static constexpr bool kMovesRegisters = kGroups == 2 && kValues.blocks == 1;
  static constexpr int kThreads = kGroups * kWarpgroup + (kMovesRegisters ? kWarpgroup : 64);

  static constexpr int kChunkCodes = kChunkStrips * Decoder::kCodeBytes;
  static constexpr int kChunkScales = kChunkStrips * Decoder::kScaleBytes;
  static constexpr int kChunkShifts = Decoder::kHasShifts ? kChunkStrips * Decoder::kShiftBytes : 0;
  static constexpr int kSlabBytes = kRows * 128;  // 64 of K of A
  static constexpr int kLoadRows = kRows / kCluster;
  static constexpr int kRowBytes = kGroupSlabs * kSlabBytes;
  static constexpr int kWeightBytes = kTileChunks * (kChunkCodes + kChunkScales + kChunkShifts);
  // Rows, codes, scales and zero points, each of all stages.
  static constexpr int kCodesAt = kStages * kRowBytes;
  static constexpr int kScalesAt = kCodesAt + kStages * kTileChunks * kChunkCodes;
  static constexpr int kShiftsAt = kScalesAt + kStages * kTileChunks * kChunkScales;
  // Sums pass through a box to leave along D's lines, so many rows at a time.
  static constexpr int kBoxRows = kRows < 32 ? kRows : 32;
  static constexpr int kBoxPitch = (kChunkLines + 4) * 4;
  static constexpr int kBoxBytes = kBoxRows * kBoxPitch;
  // Sums of A's elements, where there are offsets.
  static constexpr int kRowSumBytes = Decoder::kHasOffsets ? kRows * Decoder::kParts * 4 : 0;
  static constexpr int kRowSumsAt = kShiftsAt + kStages * kTileChunks * kChunkShifts;
  static constexpr int kBoxesAt = kRowSumsAt + kStages * kRowSumBytes;
  static constexpr int kFull = kBoxesAt + kGroups * kBoxBytes;
  static constexpr int kEmpty = kFull + kStages * 8;
  static constexpr int kTableAt =
      Decoder::kHasTable ? (kEmpty + kStages * 8 + 127) / 128 * 128 : kEmpty + kStages * 8;
  static constexpr int kSharedBytes = kTableAt + (Decoder::kHasTable ? kTableBytes : 0);
  static constexpr int kSums = kRows / 2;  // of a thread, for a block of lines

  static_assert(kRows % kBoxRows == 0 && kLoadRows % 8 == 0);
  static_assert(kValues.blocks * (kSharedBytes + 1024) <= 228 * 1024 && kBoxesAt % 16 == 0 &&
                kFull % 8 == 0);
  static_assert(kStages >= 3);  // a stage is given back once the next is there
};

template <class Layout>
struct WideBlock {
  ptx::SharedAddress shared;
  std::uint32_t rank;

  GEMMD_DEVICE ptx::SharedAddress Full(std::uint32_t stage) const {
    return shared + Layout::kFull + stage * 8;
  }
  GEMMD_DEVICE ptx::SharedAddress Empty(std::uint32_t stage) const {
    return shared + Layout::kEmpty + stage * 8;
  }
  // Tiles of a cluster: neighbours have the same rows of A and read the next lines of W.
  GEMMD_DEVICE std::uint32_t FirstTile() const { return ptx::BlockIndexX() / Layout::kCluster; }
  GEMMD_DEVICE std::uint32_t TileStep() const { return ptx::GridSizeX() / Layout::kCluster; }
  GEMMD_DEVICE std::uint32_t LineTile(const QuantParams& params, std::uint32_t tile) const {
    return tile % params.tiles_n * Layout::kCluster + rank;
  }
  GEMMD_DEVICE std::uint32_t Tiles(const QuantParams& params) const {
    return params.tiles_m * params.tiles_n;
  }
  template <class Params>
  GEMMD_DEVICE TileRows Rows(const Params& params, std::uint32_t tile) const {
    return RowsOfTiles<Layout::kRows>(params, tile / params.tiles_n);
  }

  // Both that load arrive at a stage.
  GEMMD_DEVICE void Initialise() const {
    for (std::uint32_t s = 0; s < Layout::kStages; ++s) {
      ptx::MbarrierInit(Full(s), 2);
      ptx::MbarrierInit(Empty(s), Layout::kGroups * 4 * Layout::kCluster);
    }
    ptx::FenceMbarrierInit();
  }
};

// One thread loads weights, and another one A: a copy takes its thread some 100 cycles, however
// small.
template <class Layout, class Decoder, class Params>
class WideWeightLoader {
 public:
  GEMMD_DEVICE WideWeightLoader(const Params& params, const WideBlock<Layout>& block)
      : params_(params),
        block_(block),
        tile_(block.FirstTile()),
        product_(block.Rows(params, tile_).product) {}

  // The ring's first stages, for which nobody waits.
  GEMMD_DEVICE void LoadFirst() {
    for (int stage = 0; stage < Layout::kStages; ++stage) {
      if (!Load()) return;
    }
  }
  GEMMD_DEVICE void Run() {
    while (Load()) {
    }
  }

 private:
  // Returns whether there was a stage left.
  GEMMD_DEVICE bool Load() {
    if (tile_ >= block_.Tiles(params_)) return false;
    const std::uint32_t stage = ring_.stage;
    if (wraps_) ptx::MbarrierWait(block_.Empty(stage), ring_.parity ^ 1);
    const ptx::SharedAddress full = block_.Full(stage);
    ptx::MbarrierArriveExpect(full, Layout::kWeightBytes);
    const std::int64_t first = std::int64_t{block_.LineTile(params_, tile_)} * Layout::kTileChunks;
    const ProductPlanes planes = PlanesOf(params_, product_);
    GEMMD_UNROLL
    for (int nth = 0; nth < Layout::kTileChunks; ++nth) {
      const std::int64_t chunk = first + nth;
      const std::int64_t group = chunk * params_.k_groups + group_;
      const std::int64_t of_scales = params_.scales_are_of_lines ? chunk : group;
      const std::uint32_t to = stage * Layout::kTileChunks + static_cast<std::uint32_t>(nth);
      const auto load = [&](int at, const std::uint8_t* plane, std::int64_t from, int bytes) {
        ptx::BulkLoad(block_.shared + at + to * bytes, plane + from * bytes,
                      static_cast<std::uint32_t>(bytes), full, params_.weight_policy);
      };
      load(Layout::kCodesAt, planes.codes, group, Layout::kChunkCodes);
      load(Layout::kScalesAt, planes.scales, of_scales, Layout::kChunkScales);
      if constexpr (Decoder::kHasShifts) {
        load(Layout::kShiftsAt, planes.shifts, of_scales, Layout::kChunkShifts);
      }
    }
    wraps_ = ring_.Next() || wraps_;
    if (++group_ == params_.k_groups) {
      group_ = 0;
      tile_ += block_.TileStep();
      product_ = block_.Rows(params_, tile_).product;
    }
    return true;
  }

  const Params& params_;
  const WideBlock<Layout>& block_;
  std::uint32_t tile_;
  std::int32_t product_;  // the tile's
  std::int32_t group_ = 0;
  mma::RingPosition<Layout::kStages> ring_;
  bool wraps_ = false;
};

template <class Layout, class Params>
class WideRowLoader {
 public:
  GEMMD_DEVICE WideRowLoader(const Params& params, const WideBlock<Layout>& block)
      : params_(params), block_(block) {}

  GEMMD_DEVICE void Run() const {
    mma::RingPosition<Layout::kStages> ring;
    bool wraps = false;
    const std::uint32_t tiles = block_.Tiles(params_);
    for (std::uint32_t tile = block_.FirstTile(); tile < tiles; tile += block_.TileStep()) {
      const bool is_last = tile + block_.TileStep() >= tiles;
      const std::int32_t row = FirstRow(tile);
      GEMMD_NO_UNROLL
      for (std::int32_t g = 0; g < params_.k_groups; ++g) {
        if (wraps) ptx::MbarrierWait(block_.Empty(ring.stage), ring.parity ^ 1);
        ptx::MbarrierArriveExpect(block_.Full(ring.stage),
                                  Layout::kRowBytes + Layout::kRowSumBytes);
        Load(row, g, ring.stage);
        if constexpr (Layout::kRowSumBytes > 0) {
          LoadSums(tile / params_.tiles_n, g, ring.stage);
        }
        if (is_last && g + 1 == params_.k_groups) ptx::LaunchDependentGrid();
        wraps = ring.Next() || wraps;
      }
    }
  }

 private:
  // Each block of a cluster loads a part of the rows, for all. One that would load none of A's
  // loads the tile's first again: a box past A's end costs a third of the bandwidth.
  GEMMD_DEVICE std::int32_t FirstRow(std::uint32_t tile) const {
    const TileRows rows = block_.Rows(params_, tile);
    if constexpr (Layout::kCluster == 1) return rows.first;
    const auto own = static_cast<std::int32_t>(block_.rank * Layout::kLoadRows);
    return rows.first + own < rows.end ? rows.first + own : rows.first;
  }
  GEMMD_DEVICE void Load(std::int32_t row, std::int32_t g, std::uint32_t stage) const {
    GEMMD_UNROLL
    for (int slab = 0; slab < kGroupSlabs; ++slab) {
      const ptx::SharedAddress to = block_.shared + stage * Layout::kRowBytes +
                                    slab * Layout::kSlabBytes +
                                    block_.rank * (Layout::kLoadRows * 128);
      const std::int32_t k = g * kGroupK + slab * kSlabK;
      if constexpr (Layout::kCluster == 1) {
        ptx::TensorLoad2D(to, &params_.rows, k, row, block_.Full(stage));
      } else {
        ptx::TensorLoad2DMulticast(to, &params_.rows, k, row, block_.Full(stage),
                                   (1u << Layout::kCluster) - 1);
      }
    }
  }

  // Loads the sums of all of the tile's rows: each block of a cluster has them.
  GEMMD_DEVICE void LoadSums(std::uint32_t row_tile, std::int32_t g, std::uint32_t stage) const {
    const std::int64_t nth = std::int64_t{g} * params_.tiles_m + row_tile;
    ptx::BulkLoad(block_.shared + Layout::kRowSumsAt + stage * Layout::kRowSumBytes,
                  params_.row_sums + nth * (Layout::kRowSumBytes / 4), Layout::kRowSumBytes,
                  block_.Full(stage), ptx::CachePolicy::kNormal);
  }

  const Params& params_;
  const WideBlock<Layout>& block_;
};

// A warpgroup that multiplies: kLineBlocks blocks of 64 lines by all rows of the tile.
template <class Layout, class Decoder, class Params>
class WideConsumer {
 public:
  GEMMD_DEVICE WideConsumer(const Params& params, const WideBlock<Layout>& block,
                            std::uint32_t group)
      : params_(params),
        block_(block),
        group_(group),
        warp_(ptx::ThreadIndex() / 32 % 4),
        lane_(ptx::LaneIndex()) {
    rows_ = ptx::MakeWgmmaDescriptor128B(block.shared);
    units_ = ptx::Keep(group * Layout::kLineBlocks * kChunkStrips + warp_);
    if constexpr (Decoder::kHasTable) next_decoder_.SetTable(block.shared + Layout::kTableAt);
    const ptx::SharedAddress empty = block.Empty(0);
    empty_ =
        Layout::kCluster == 1 ? empty : ptx::MapShared(empty, lane_ < Layout::kCluster ? lane_ : 0);
  }

  GEMMD_DEVICE void Run() {
    const std::uint32_t tiles = block_.Tiles(params_);
    bool is_first = true;
    for (std::uint32_t tile = block_.FirstTile(); tile < tiles; tile += block_.TileStep()) {
      Totals totals;
      if constexpr (Decoder::kIsChain) {
        ChainTile(totals, is_first);
      } else if constexpr (Decoder::kHasParts) {
        PartsTile(totals, is_first);
      } else {
        SumTile(totals, is_first);
      }
      is_first = false;
      const std::uint32_t line = block_.LineTile(params_, tile) * Layout::kTileLines +
                                 group_ * Layout::kLineBlocks * kChunkLines;
      const TileRows rows = block_.Rows(params_, tile);
      Store(ParamsOf(params_, rows), totals, rows.first, static_cast<std::int32_t>(line));
    }
  }

 private:
  using Sums = float[Layout::kSums];
  using Totals = float[Layout::kLineBlocks][Layout::kSums];
  using Fragments = std::uint32_t[Layout::kBatch][Decoder::kTerms][4];
  // Steps of a load of codes, and loads of a batch. Those of 6 bits are loaded at once.
  static constexpr bool kHasSixBits = Decoder::kPairWords == 3;
  static constexpr int kLoadSteps = kHasSixBits ? kSteps : 4 / Decoder::kStepWords;
  static constexpr int kCodeLoads = kHasSixBits                   ? Decoder::kCodeLoads
                                    : Layout::kBatch < kLoadSteps ? 1
                                                                  : Layout::kBatch / kLoadSteps;
  static constexpr int kIndices = Layout::kBatches * Layout::kLineBlocks;  // of a stage
  static constexpr bool kStaggers = Layout::kGroups == 2;
  // Sums of parts, of which one may be added while the next is multiplied.
  static constexpr int kPartBatches = Decoder::kPartSteps / Layout::kBatch;
  static constexpr int kPartBuffers = Layout::kSums > 32 ? 1 : 2;

  // Codes for the batch that begins at step kFirst of a stage's block of lines, and its decoder
  // where that is the block's first.
  template <int kFirst>
  GEMMD_DEVICE void LoadBatch(std::uint32_t stage, int block) {
    const std::uint32_t unit =
        units_ + (stage * Layout::kTileChunks + static_cast<std::uint32_t>(block)) * kChunkStrips;
    const ptx::SharedAddress codes =
        block_.shared + Layout::kCodesAt + unit * Decoder::kCodeBytes + lane_ * 16;
    if constexpr (kFirst == 0) {
      next_decoder_.Load(block_.shared + Layout::kScalesAt + unit * Decoder::kScaleBytes +
                             lane_ / 4 * (Decoder::kScaleBytes / 8),
                         block_.shared + Layout::kShiftsAt + unit * Decoder::kShiftBytes +
                             lane_ / 4 * (Decoder::kShiftBytes / 8));
      if constexpr (Decoder::kIsChain) is_odd_ = ptx::AnyInWarp(next_decoder_.HasOddScale());
    }
    if constexpr (kFirst % kLoadSteps == 0) {
      GEMMD_UNROLL
      for (int load = 0; load < kCodeLoads; ++load) {
        words_[load] = ptx::LoadShared<ptx::Vector4>(codes + (kFirst / kLoadSteps + load) * 512);
      }
    }
  }
  template <int kFirst, bool kAny = false>
  GEMMD_DEVICE void DecodeBatch(Fragments& fragments) {
    if constexpr (Decoder::kIsChain && !kAny) {
      if (is_odd_) {
        DecodeBatch<kFirst, true>(fragments);
        return;
      }
    }
    if constexpr (Decoder::kHasOddCodes && !kAny) {
      std::uint32_t odd = 0;
      GEMMD_UNROLL
      for (int load = 0; load < kCodeLoads; ++load) {
        GEMMD_UNROLL
        for (int w = 0; w < 4; ++w) odd |= Decoder::OddBits(WordOf(words_[load], w));
      }
      if (ptx::AnyInWarp(odd != 0)) {
        DecodeBatch<kFirst, true>(fragments);
        return;
      }
    }
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kBatch; ++i) {
      std::uint32_t words[Decoder::kStepWords];
      TakeWords<Decoder>(words_, kFirst + i, words);
      DecodeStep<kAny>(next_decoder_, words, kFirst + i, fragments[i]);
    }
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kBatch; ++i) {
      GEMMD_UNROLL
      for (int term = 0; term < Decoder::kTerms; ++term) ptx::KeepAll(fragments[i][term]);
    }
  }
  // From zero at the first step of a group or a part, unless the sums are a chain.
  template <int kFirst>
  GEMMD_DEVICE static void Multiply(Sums& sums, const Fragments& fragments, std::uint64_t rows) {
    ptx::WgmmaFence();
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kBatch; ++i) {
      const int step = kFirst + i;
      const int offset = step / 4 * Layout::kSlabBytes + step % 4 * 32;
      GEMMD_UNROLL
      for (int term = 0; term < Decoder::kTerms; ++term) {
        ptx::WgmmaRegisters<Decoder::Rows::kType, Layout::kRows>(
            sums, fragments[i][term], rows + static_cast<std::uint64_t>(offset / 16),
            Decoder::kIsChain || step % Decoder::kPartSteps > 0 || term > 0);
      }
    }
    ptx::WgmmaCommit();
  }
  GEMMD_DEVICE void Add(Sums& total, const Sums& sums) const {
    const float low = ScaleOf(scales_, 0, 0, params_.scales_are_bf16);
    const float high = ScaleOf(scales_, 1, 0, params_.scales_are_bf16);
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kSums; ++i) {
      total[i] = std::fma(i % 4 < 2 ? low : high, sums[i], total[i]);
    }
  }

  GEMMD_DEVICE void Release(std::uint32_t stage) const {
    ptx::SyncWarp();
    if (lane_ >= Layout::kCluster) return;
    if constexpr (Layout::kCluster == 1) {
      ptx::MbarrierArrive(empty_ + stage * 8);
    } else {
      ptx::MbarrierArriveRemote(empty_ + stage * 8);
    }
  }

  GEMMD_DEVICE static void SetZero(Totals& totals) {
    GEMMD_UNROLL
    for (int b = 0; b < Layout::kLineBlocks; ++b) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kSums; ++i) totals[b][i] = 0;
    }
  }

  GEMMD_DEVICE void SumTile(Totals& totals, bool is_first) {
    SetZero(totals);
    Sums sums;
    Fragments fragments[2];
    ptx::MbarrierWait(block_.Full(ring_.stage), ring_.parity);
    LoadBatch<0>(ring_.stage, 0);
    DecodeBatch<0>(fragments[0]);
    // The second group begins half a group of K later, so that both do not add at once.
    if constexpr (kStaggers) {
      if (is_first && group_ == 1) ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);
    }
    // With an odd number of batches a stage, two stages a turn, so that buffers are known.
    GEMMD_NO_UNROLL
    for (std::int32_t g = 0; g < params_.k_groups; g += 2) {
      Stage<0>(totals, sums, fragments, g, is_first);
      if (g + 1 < params_.k_groups) Stage<kIndices % 2>(totals, sums, fragments, g + 1, false);
    }
  }

  template <int kParity>
  GEMMD_DEVICE void Stage(Totals& totals, Sums& sums, Fragments (&fragments)[2], std::int32_t g,
                          bool is_first) {
    const std::uint32_t stage = ring_.stage;
    ring_.Next();
    Batch<0, kParity>(totals, sums, fragments, stage, g + 1 == params_.k_groups,
                      is_first && g == 0);
    Release(stage);
  }

  // Batch kIndex of a stage: it is multiplied while the next one is decoded.
  template <int kIndex, int kParity>
  GEMMD_DEVICE void Batch(Totals& totals, Sums& sums, Fragments (&fragments)[2],
                          std::uint32_t stage, bool is_last, bool is_first) {
    constexpr int kBlock = kIndex / Layout::kBatches;
    constexpr int kOfBlock = kIndex % Layout::kBatches;
    constexpr int kNext = (kIndex + 1) % kIndices;
    constexpr int kNextStep = kNext % Layout::kBatches * Layout::kBatch;
    if constexpr (kOfBlock == 0) scales_ = next_decoder_.scales;
    Multiply<kOfBlock * Layout::kBatch>(
        sums, fragments[(kIndex + kParity) % 2],
        rows_ + stage * static_cast<std::uint64_t>(Layout::kRowBytes / 16));
    if constexpr (kStaggers && kIndex == (Layout::kBatches - 1) / 2) {
      if (is_first && group_ == 0) ptx::NamedBarrierArrive(kStaggerBarrier, 2 * kWarpgroup);
    }
    // The batch before is over, whose registers the next one gets.
    if constexpr (kOfBlock != 0) ptx::WgmmaWait<1>();
    // All of the block is decoded, and its decoder about to be that of the next.
    if constexpr (Decoder::kHasNan && kNextStep == 0) {
      if (ptx::AnyInWarp(next_decoder_.HasNan())) next_decoder_.PoisonLines(scales_);
    }
    // In a branch, which there always is but at the end: else the compiler decodes behind the wait
    // that follows.
    if (kNext == 0 ? !is_last : params_.k_groups > 0) {
      if constexpr (kNext == 0) {
        ptx::MbarrierWait(block_.Full(ring_.stage), ring_.parity);
        LoadBatch<0>(ring_.stage, 0);
      } else {
        LoadBatch<kNextStep>(stage, kNext / Layout::kBatches);
      }
      DecodeBatch<kNextStep>(fragments[(kIndex + kParity + 1) % 2]);
    }
    if constexpr (kOfBlock == Layout::kBatches - 1) {
      ptx::WgmmaWait<0>();
      Add(totals[kBlock], sums);
    }
    if constexpr (kIndex + 1 < kIndices) {
      Batch<kIndex + 1, kParity>(totals, sums, fragments, stage, is_last, is_first);
    }
  }

  GEMMD_DEVICE void PartsTile(Totals& totals, bool is_first) {
    SetZero(totals);
    Sums sums[kPartBuffers];
    Fragments fragments[2];
    BeginStage(fragments[0]);
    if constexpr (kStaggers) {
      if (is_first && group_ == 1) ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);
    }
    // As in SumTile().
    GEMMD_NO_UNROLL
    for (std::int32_t g = 0; g < params_.k_groups; g += 2) {
      PartStage<0>(totals, sums, fragments, g, is_first);
      if (g + 1 < params_.k_groups) {
        PartStage<kIndices % 2>(totals, sums, fragments, g + 1, false);
      }
    }
  }
  template <int kParity>
  GEMMD_DEVICE void PartStage(Totals& totals, Sums (&sums)[kPartBuffers], Fragments (&fragments)[2],
                              std::int32_t g, bool is_first) {
    const std::uint32_t stage = ring_.stage;
    ring_.Next();
    Sums group;
    PartBatch<0, kParity>(totals, group, sums, fragments, stage, g + 1 == params_.k_groups,
                          is_first && g == 0);
    Release(stage);
  }

  // Batch kIndex of a stage: while it is multiplied, the part before is added if there are
  // registers for both, and the next batch is decoded. Nothing is in flight at the stage's end.
  template <int kIndex, int kParity>
  GEMMD_DEVICE void PartBatch(Totals& totals, Sums& group, Sums (&sums)[kPartBuffers],
                              Fragments (&fragments)[2], std::uint32_t stage, bool is_last,
                              bool is_first) {
    constexpr int kNext = (kIndex + 1) % kIndices;
    constexpr int kNextStep = kNext % Layout::kBatches * Layout::kBatch;
    constexpr int kPart = kIndex / kPartBatches;
    constexpr bool kBeginsPart = kIndex % kPartBatches == 0;
    Multiply<kIndex % Layout::kBatches * Layout::kBatch>(
        sums[kPart % kPartBuffers], fragments[(kIndex + kParity) % 2],
        rows_ + stage * static_cast<std::uint64_t>(Layout::kRowBytes / 16));
    if constexpr (kStaggers && kIndex == (Layout::kBatches - 1) / 2) {
      if (is_first && group_ == 0) ptx::NamedBarrierArrive(kStaggerBarrier, 2 * kWarpgroup);
    }
    // The batch before is over, whose registers the next one gets.
    if constexpr (kIndex > 0 && (kPartBuffers == 2 || !kBeginsPart)) ptx::WgmmaWait<1>();
    if constexpr (kIndex > 0 && kPartBuffers == 2 && kBeginsPart) {
      KeepPart(sums[(kPart - 1) % 2]);
      AddPart<kPart - 1>(totals, group, sums[(kPart - 1) % 2], stage);
    }
    // The block's last part is added once there is the decoder of the next.
    if constexpr (kNextStep == 0) {
      scales_ = next_decoder_.scales;
      if constexpr (Decoder::kHasNan) {
        if (ptx::AnyInWarp(next_decoder_.HasNan())) next_decoder_.PoisonLines(scales_);
      }
    }
    // As in Batch().
    if (kNext == 0 ? !is_last : params_.k_groups > 0) {
      if constexpr (kNext == 0) {
        BeginStage(fragments[(kIndices + kParity) % 2]);
      } else {
        LoadBatch<kNextStep>(stage, kNext / Layout::kBatches);
        DecodeBatch<kNextStep>(fragments[(kNext + kParity) % 2]);
      }
    }
    if constexpr (kNext == 0 || (kPartBuffers == 1 && kNext % kPartBatches == 0)) {
      ptx::WgmmaWait<0>();
      KeepPart(sums[kPart % kPartBuffers]);
      AddPart<kPart>(totals, group, sums[kPart % kPartBuffers], stage);
    }
    if constexpr (kNext != 0) {
      PartBatch<kNext, kParity>(totals, group, sums, fragments, stage, is_last, is_first);
    }
  }
  // Keeps a part's sums behind the wait that comes before, one by one: where a group has four parts
  // nvcc 13.0 leaves an array in local memory that KeepAll()'s loop names by reference, and ptxas
  // then lets each product end before the next (C7514).
  GEMMD_DEVICE static void KeepPart(Sums& part) {
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kSums; ++i) {
      float one[1] = {part[i]};
      ptx::KeepAll(one);
      part[i] = one[0];
    }
  }
  // Part kOfStage of a stage's.
  template <int kOfStage>
  GEMMD_DEVICE void AddPart(Totals& totals, Sums& group, const Sums& part,
                            std::uint32_t stage) const {
    constexpr int kPart = kOfStage % Decoder::kParts;
    constexpr bool kIsLast = kPart + 1 == Decoder::kParts;
    const typename Decoder::Scales& scales = kIsLast ? scales_ : next_decoder_.scales;
    const float low = ScaleOf(scales, 0, kPart, params_.scales_are_bf16);
    const float high = ScaleOf(scales, 1, kPart, params_.scales_are_bf16);
    Sums& total = totals[kOfStage / Decoder::kParts];
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kSums; ++i) {
      group[i] = std::fma(i % 4 < 2 ? low : high, part[i], kPart == 0 ? 0.0F : group[i]);
    }
    if constexpr (Decoder::kHasOffsets) AddOffsets<kOfStage>(group, stage);
    if constexpr (kIsLast) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kSums; ++i) total[i] += group[i];
    }
  }
  // Offsets are read as late as that: there are no registers for them.
  template <int kOfStage>
  GEMMD_DEVICE void AddOffsets(Sums& group, std::uint32_t stage) const {
    constexpr int kPart = kOfStage % Decoder::kParts;
    constexpr int kBlock = kOfStage / Decoder::kParts;
    const std::uint32_t unit = units_ + (stage * Layout::kTileChunks + kBlock) * kChunkStrips;
    const auto offsets = LoadAll<typename Decoder::Scales>(block_.shared + Layout::kShiftsAt +
                                                           unit * Decoder::kShiftBytes +
                                                           lane_ / 4 * (Decoder::kShiftBytes / 8));
    const float low = ScaleOf(offsets, 0, kPart, params_.scales_are_bf16);
    const float high = ScaleOf(offsets, 1, kPart, params_.scales_are_bf16);
    const ptx::SharedAddress from = block_.shared + Layout::kRowSumsAt +
                                    stage * Layout::kRowSumBytes + kPart * 32 + lane_ % 4 * 8;
    GEMMD_UNROLL
    for (int eight = 0; eight < Layout::kSums / 4; ++eight) {
      const auto rows = ptx::LoadShared<SumsOfRow<2>>(from + eight * (Decoder::kParts * 32));
      GEMMD_UNROLL
      for (int i = 0; i < 4; ++i) {
        float& sum = group[eight * 4 + i];
        sum = std::fma(i < 2 ? low : high, rows.value[i % 2], sum);
      }
    }
  }

  GEMMD_DEVICE void ChainTile(Totals& totals, bool is_first) {
    SetZero(totals);
    Fragments fragments[2];
    BeginStage(fragments[0]);
    if constexpr (kStaggers) {
      if (is_first && group_ == 1) ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);
    }
    std::uint32_t before = ring_.stage;  // of the group of K before, once there is one
    GEMMD_NO_UNROLL
    for (std::int32_t g = 0;;) {
      before = ChainStage<0>(totals, fragments, before, g, is_first && g == 0);
      if (++g == params_.k_groups) break;
      BeginStage(fragments[kIndices % 2]);
      // With an odd number of batches a stage, two stages a turn, so that buffers are known.
      if constexpr (kIndices % 2 == 1) {
        before = ChainStage<1>(totals, fragments, before, g, false);
        if (++g == params_.k_groups) break;
        BeginStage(fragments[0]);
      }
    }
    ptx::WgmmaWait<0>();
    GEMMD_UNROLL
    for (int b = 0; b < Layout::kLineBlocks; ++b) ptx::KeepAll(totals[b]);
    Release(before);
    const float factor = SumFactor<Decoder>(params_);
    GEMMD_UNROLL
    for (int b = 0; b < Layout::kLineBlocks; ++b) {
      GEMMD_UNROLL
      for (int i = 0; i < Layout::kSums; ++i) totals[b][i] *= factor;
    }
  }

  // Waits for the ring's next stage, and decodes its first batch.
  GEMMD_DEVICE void BeginStage(Fragments& fragments) {
    ptx::MbarrierWait(block_.Full(ring_.stage), ring_.parity);
    LoadBatch<0>(ring_.stage, 0);
    DecodeBatch<0>(fragments);
  }
  // Returns its stage, which its last product still reads.
  template <int kParity>
  GEMMD_DEVICE std::uint32_t ChainStage(Totals& totals, Fragments (&fragments)[2],
                                        std::uint32_t before, std::int32_t g, bool is_first) {
    const std::uint32_t stage = ring_.stage;
    ring_.Next();
    ChainBatch<0, kParity>(totals, fragments, stage, before, g, is_first);
    return stage;
  }

  // Batch kIndex of a stage and those behind it: each is multiplied while the next is decoded. The
  // stage of the group before is given back once its last product has ended.
  template <int kIndex, int kParity>
  GEMMD_DEVICE void ChainBatch(Totals& totals, Fragments (&fragments)[2], std::uint32_t stage,
                               std::uint32_t before, std::int32_t g, bool is_first) {
    constexpr int kOfBlock = kIndex % Layout::kBatches;
    Multiply<kOfBlock * Layout::kBatch>(
        totals[kIndex / Layout::kBatches], fragments[(kIndex + kParity) % 2],
        rows_ + stage * static_cast<std::uint64_t>(Layout::kRowBytes / 16));
    if constexpr (kStaggers && kIndex == (Layout::kBatches - 1) / 2) {
      if (is_first && group_ == 0) ptx::NamedBarrierArrive(kStaggerBarrier, 2 * kWarpgroup);
    }
    // The batch before is over, whose registers the next one gets.
    ptx::WgmmaWait<1>();
    if constexpr (kIndex == 0) {
      if (g > 0) Release(before);
    }
    if constexpr (kIndex + 1 < kIndices) {
      constexpr int kNext = kIndex + 1;
      constexpr int kNextStep = kNext % Layout::kBatches * Layout::kBatch;
      // As in Batch().
      if (params_.k_groups > 0) {
        LoadBatch<kNextStep>(stage, kNext / Layout::kBatches);
        DecodeBatch<kNextStep>(fragments[(kNext + kParity) % 2]);
      }
      ChainBatch<kNext, kParity>(totals, fragments, stage, before, g, is_first);
    }
  }

  // The sums pass through the group's box, so many rows at a time. A launch meets the code cold:
  // that which reads the box exists once.
  GEMMD_DEVICE void Store(const QuantParams& result, const Totals& totals, std::int32_t first_row,
                          std::int32_t first_line) const {
    constexpr int kParts = Layout::kRows / Layout::kBoxRows;
    constexpr int kPartSums = Layout::kBoxRows / 2;
    const ptx::SharedAddress box = block_.shared + Layout::kBoxesAt + group_ * Layout::kBoxBytes;
    const ptx::SharedAddress to =
        box + lane_ % 4 * 2 * Layout::kBoxPitch + (warp_ * kStripLines + lane_ / 4) * 4;
    GEMMD_NO_UNROLL
    for (int which = 0; which < Layout::kLineBlocks * kParts; ++which) {
      ptx::NamedBarrierSync(kGroupBarrier + group_, kWarpgroup);
      GEMMD_UNROLL
      for (int w = 0; w < Layout::kLineBlocks * kParts; ++w) {
        if (w != which) continue;
        GEMMD_UNROLL
        for (int i = 0; i < kPartSums; ++i) {
          ptx::StoreShared(to + (i / 4 * 8 + i % 2) * Layout::kBoxPitch + i / 2 % 2 * 32,
                           totals[w / kParts][w % kParts * kPartSums + i]);
        }
      }
      ptx::NamedBarrierSync(kGroupBarrier + group_, kWarpgroup);
      StoreBox(result, box, first_row + which % kParts * Layout::kBoxRows,
               first_line + which / kParts * kChunkLines);
    }
  }
  GEMMD_DEVICE void StoreBox(const QuantParams& result, ptx::SharedAddress box,
                             std::int32_t first_row, std::int32_t first_line) const {
    constexpr std::uint32_t kFours = kChunkLines / 4;
    GEMMD_NO_UNROLL
    for (std::uint32_t i = warp_ * 32 + lane_; i < Layout::kBoxRows * kFours; i += kWarpgroup) {
      const ptx::SharedAddress from = box + i / kFours * Layout::kBoxPitch + i % kFours * 16;
      const std::int32_t row = first_row + static_cast<std::int32_t>(i / kFours);
      const std::int32_t line = first_line + static_cast<std::int32_t>(i % kFours * 4);
      if (!result.has_epilogue) {
        StoreFour(result, ptx::LoadShared<SumsOfRow<4>>(from), row, line);
        continue;
      }
      GEMMD_NO_UNROLL
      for (int e = 0; e < 4; ++e) {
        FinishElement(result, ptx::LoadShared<float>(from + e * 4), row, line + e);
      }
    }
  }

  const Params& params_;
  const WideBlock<Layout>& block_;
  const std::uint32_t group_;
  const std::uint32_t warp_;
  const std::uint32_t lane_;
  std::uint64_t rows_;
  std::uint32_t units_;  // in a stage before this warp's first
  ptx::SharedAddress empty_;
  mma::RingPosition<Layout::kStages> ring_;
  // The words of the batch that is decoded next, and the scales of the block that is multiplied.
  ptx::Vector4 words_[kCodeLoads];
  Decoder next_decoder_;
  typename Decoder::Scales scales_;
  bool is_odd_;  // whether it has odd scales, of a chain
};

// Multiplies one product, or groups.
template <int kTiling, class Decoder, class Params>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS((WideLayout<kTiling, Decoder>::kThreads),
                                      (WideLayout<kTiling, Decoder>::kValues.blocks))
    WideProduct(GEMMD_GRID_CONSTANT const Params params) {
  using Layout = WideLayout<kTiling, Decoder>;
  if constexpr (ptx::kHasWarpgroupMma) {
    const WideBlock<Layout> block = {ptx::SharedBase(),
                                     Layout::kCluster == 1 ? 0 : ptx::RankInCluster()};
    const std::uint32_t warp = ptx::Shuffle(ptx::ThreadIndex() / 32, 0);
    if (warp >= Layout::kGroups * 4) {
      const bool is_first = ptx::LaneIndex() == 0 && warp == Layout::kGroups * 4;
      const bool is_second = ptx::LaneIndex() == 0 && warp == Layout::kGroups * 4 + 1;
      WideWeightLoader<Layout, Decoder, Params> weights(params, block);
      if (is_first) {
        block.Initialise();
        if (params.weights_are_settled) weights.LoadFirst();
      }
      if (is_second) ptx::PrefetchTensorMap(&params.rows);
      ptx::SyncWarp();
      ptx::SyncThreads();
      if constexpr (Layout::kMovesRegisters) ptx::DecreaseRegisters<24>();
      if constexpr (Layout::kCluster > 1) ptx::ClusterSync();
      ptx::WaitForPrecedingGrid();
      if (is_first) weights.Run();
      if (is_second) WideRowLoader<Layout, Params>(params, block).Run();
      ptx::SyncWarp();
    } else {
      if constexpr (Decoder::kHasTable) {
        WriteTable<Decoder::kTerms>(params, block.shared + Layout::kTableAt, ptx::ThreadIndex(),
                                    Layout::kGroups * kWarpgroup);
      }
      ptx::SyncThreads();
      if constexpr (Layout::kMovesRegisters) ptx::IncreaseRegisters<240>();
      if constexpr (Layout::kCluster > 1) ptx::ClusterSync();
      // D may be written once a stage of A has come, so the preceding grid must have ended by then.
      // Waiting here costs no issue slots, as polling a stage's mbarrier would.
      ptx::WaitForPrecedingGrid();
      WideConsumer<Layout, Decoder, Params> me(params, block, warp / 4);
      me.Run();
    }
    // No block of the cluster ends while others may still write to it.
    if constexpr (Layout::kCluster > 1) ptx::ClusterSync();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
