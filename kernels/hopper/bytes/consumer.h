// The consumers: warpgroups that multiply what lies in the stages and write D.
#pragma once

#include <cmath>
#include <type_traits>

#include "kernels/hopper/bytes/finish.h"
#include "kernels/hopper/bytes/formats.h"
#include "kernels/hopper/bytes/params.h"
#include "kernels/hopper/half/wgmma_consumer.h"

namespace gemmd::hopper::bytes {
inline namespace GEMMD_BACKEND {

inline constexpr int kSteps = half::kTileK / 16;  // instructions of a stage's K

// The ring of stages, as one group of consumers walks it.
template <class Layout>
struct Stages {
  const Block<Layout>& block;
  const Consumer me;
  const std::uint64_t rows;  // descriptors of the first stage
  const std::uint64_t columns;
  const ptx::SharedAddress empty;  // the barrier of the first stage, of a block of the cluster
  mma::RingPosition<Layout::kStages> at;
  std::uint32_t scale_turn = 0;  // chunks whose scales passed through shared memory

  // Waits for the next stage, and calls multiply(rows, columns).
  template <class F>
  GEMMD_DEVICE void Take(const F& multiply) {
    ptx::MbarrierWait(block.Full(at.stage), at.parity);
    const std::uint32_t offset = at.stage * Layout::kStageBytes;
    multiply(MoveDescriptor(rows, offset), MoveDescriptor(columns, offset));
  }
};

// One stage's products of integers, committed.
template <class Layout, class Format>
GEMMD_DEVICE void MultiplyStage(Sums<Layout, Format>& sums, std::uint64_t rows,
                                std::uint64_t columns, bool is_first) {
  ptx::WgmmaFence();
  GEMMD_UNROLL
  for (int x = 0; x < kSteps * Layout::kRowBlocks; ++x) {
    const int step = x / Layout::kRowBlocks;
    const int i = x % Layout::kRowBlocks;
    ptx::WgmmaBytes<Format::kRows, Format::kColumns, Layout::kTileN>(
        sums[i], MoveDescriptor(rows, i * kRowBlockBytes + step * 32),
        MoveDescriptor(columns, step * 32), !(is_first && step == 0));
  }
  ptx::WgmmaCommit();
}

GEMMD_DEVICE const float* ScaleOf(const BlockScales& scales, std::int32_t line,
                                  std::int32_t k_block) {
  return scales.data + (line >> scales.line_shift) * scales.line_step + k_block * scales.k_step;
}

// Blocks of K whose scales are loaded together, as many blocks ahead: none
// waits for memory.
inline constexpr int kBatch = 2;

// Adds parts, which have no scales of their own, to sums.
template <class Layout>
struct PlainParts {
  GEMMD_DEVICE PlainParts(const ByteParams&, const Stages<Layout>&, const TileCorner&) {}
  GEMMD_DEVICE void BeginBatch(std::int32_t) {}
  template <int kBlock, int kChunk>
  GEMMD_DEVICE void BeginChunk() {}
  template <int kBlock, int kChunk>
  GEMMD_DEVICE void Promote(const float (&part)[kPartColumns<Layout> / 2], float* sums) const {
    GEMMD_UNROLL
    for (int j = 0; j < kPartColumns<Layout> / 2; ++j) sums[j] += part[j];
  }
};

// Adds parts times the scales of their block of K: sum = fma(part, row scale *
// column scale, sum), each in f32.
template <class Layout>
class ScaledParts {
 public:
  GEMMD_DEVICE ScaledParts(const ByteParams& params, Stages<Layout>& stages,
                           const TileCorner& corner)
      : params_(params),
        corner_(corner),
        thread_(static_cast<std::int32_t>(stages.me.warp * 32 + stages.me.lane)),
        group_(stages.me.group),
        places_(stages.block.shared + kColumnScales<Layout> + group_ * (2 * kChunkBytes)),
        turn_(stages.scale_turn) {
    Load(0);
  }

  // Begins kBatch blocks of K: takes their scales, and asks for those of the
  // blocks behind them.
  GEMMD_DEVICE void BeginBatch(std::int32_t k_block) {
    scales_ = next_;
    Load(k_block + kBatch);
  }

  // Begins a chunk of columns. Where each has a scale, these pass through
  // shared memory: a thread has loaded one, and needs those of a quarter of the
  // chunk. A place is written anew when all threads have met at the barrier of
  // the chunk behind its last one.
  template <int kBlock, int kChunk>
  GEMMD_DEVICE void BeginChunk() {
    if (!AreOfLines()) return;
    place_ = places_ + (turn_++ & 1) * kChunkBytes;
    if (thread_ < kPartColumns<Layout>) {
      ptx::StoreShared(place_ + static_cast<std::uint32_t>(thread_) * 4,
                       scales_.columns[kBlock][kChunk]);
    }
    ptx::NamedBarrierSync(half::kGroupBarrier + group_, kWarpgroup);
  }

  template <int kBlock, int kChunk>
  GEMMD_DEVICE void Promote(const float (&part)[kPartColumns<Layout> / 2], float* sums) const {
    const float(&rows)[2] = scales_.rows[kBlock];
    if (!AreOfLines()) {
      const float column = scales_.columns[kBlock][kChunk];
      const float scales[2] = {rows[0] * column, rows[1] * column};
      GEMMD_UNROLL
      for (int j = 0; j < kPartColumns<Layout> / 2; ++j) {
        sums[j] = std::fma(part[j], scales[j / 2 % 2], sums[j]);
      }
      return;
    }
    struct alignas(8) Pair {
      float value[2];
    };
    const ptx::SharedAddress own = place_ + static_cast<std::uint32_t>(thread_ % 4) * 8;
    GEMMD_UNROLL
    for (int j = 0; j < kPartColumns<Layout> / 8; ++j) {
      const auto pair = ptx::LoadShared<Pair>(own + static_cast<std::uint32_t>(j) * 32);
      GEMMD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const float scale = rows[e / 2] * pair.value[e % 2];
        sums[j * 4 + e] = std::fma(part[j * 4 + e], scale, sums[j * 4 + e]);
      }
    }
  }

 private:
  static constexpr int kChunkBytes = kPartColumns<Layout> * 4;
  static constexpr int kChunks = Layout::kTileN / kPartColumns<Layout>;

  // Those that a thread loads: of its rows; of each chunk's columns, the one
  // that they share, or the thread's own of them.
  struct Scales {
    float rows[kBatch][2];
    float columns[kBatch][kChunks];
  };

  GEMMD_DEVICE bool AreOfLines() const { return params_.column_blocks.line_shift == 0; }

  GEMMD_DEVICE float At(const BlockScales& scales, std::int32_t line, std::int32_t lines,
                        std::int32_t k_block) const {
    return ptx::LoadGlobal(ScaleOf(scales, line < lines ? line : lines - 1, k_block));
  }

  GEMMD_DEVICE void Load(std::int32_t first_block) {
    const std::int32_t last_block = half::BlocksOfK(params_) - 1;
    GEMMD_UNROLL
    for (int b = 0; b < kBatch; ++b) {
      const std::int32_t k_block = first_block + b < last_block ? first_block + b : last_block;
      GEMMD_UNROLL
      for (int half = 0; half < 2; ++half) {
        const std::int32_t line = RowOf(corner_.m, half, thread_);
        next_.rows[b][half] = At(params_.row_blocks, line, params_.m, k_block);
      }
      GEMMD_UNROLL
      for (int c = 0; c < kChunks; ++c) {
        const std::int32_t line = corner_.n + c * kPartColumns<Layout> +
                                  (AreOfLines() ? thread_ % kPartColumns<Layout> : 0);
        next_.columns[b][c] = At(params_.column_blocks, line, params_.n, k_block);
      }
    }
  }

  const ByteParams& params_;
  const TileCorner corner_;
  const std::int32_t thread_;  // of the group
  const std::uint32_t group_;
  const ptx::SharedAddress places_;  // two, for a chunk's scales each
  ptx::SharedAddress place_ = 0;     // of this chunk's
  std::uint32_t& turn_;              // counts chunks, of all tiles
  Scales scales_;
  Scales next_;
};

// The products of a chunk of a stage, and their promotion.
template <class Layout, class Format, int kBlock, int kChunk, class Parts>
GEMMD_DEVICE void MultiplyChunk(std::uint64_t rows, std::uint64_t columns, Parts& parts,
                                Sums<Layout, Format>& sums) {
  constexpr int kColumns = kPartColumns<Layout>;
  float part[kColumns / 2];
  ptx::WgmmaFence();
  GEMMD_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    ptx::WgmmaBytes<Format::kRows, Format::kColumns, kColumns>(
        part, MoveDescriptor(rows, step * 32),
        MoveDescriptor(columns, kChunk * kColumns * kSpanBytes + step * 32), step != 0);
  }
  ptx::WgmmaCommit();
  parts.template BeginChunk<kBlock, kChunk>();
  ptx::WgmmaWait<0>();
  parts.template Promote<kBlock, kChunk>(part, &sums[0][kChunk * kColumns / 2]);
}

// One stage's products of floats, and their promotion.
template <class Layout, class Format, int kBlock, class Parts>
GEMMD_DEVICE void MultiplyAndPromote(std::uint64_t rows, std::uint64_t columns, Parts& parts,
                                     Sums<Layout, Format>& sums) {
  static_assert(Layout::kRowBlocks == 1 && Layout::kTileN <= 2 * kPartColumns<Layout>);
  MultiplyChunk<Layout, Format, kBlock, 0>(rows, columns, parts, sums);
  if constexpr (Layout::kTileN > kPartColumns<Layout>) {
    MultiplyChunk<Layout, Format, kBlock, 1>(rows, columns, parts, sums);
  }
}

// A tile's sums of floats.
template <class Layout, class Format, bool kHasBlocks>
GEMMD_DEVICE void SumFloats(const ByteParams& params, const TileCorner& corner,
                            Stages<Layout>& stages, Sums<Layout, Format>& sums) {
  GEMMD_UNROLL
  for (int j = 0; j < Layout::kTileN / 2; ++j) sums[0][j] = 0;
  std::conditional_t<kHasBlocks, ScaledParts<Layout>, PlainParts<Layout>> parts(params, stages,
                                                                                corner);
  const auto multiply = [&](auto number) {
    stages.Take([&](std::uint64_t rows, std::uint64_t columns) {
      MultiplyAndPromote<Layout, Format, decltype(number)::value>(rows, columns, parts, sums);
    });
    half::ReleaseStage<Layout>(stages.empty, stages.at.stage, stages.me);
    stages.at.Next();
  };
  const std::int32_t k_blocks = half::BlocksOfK(params);
  GEMMD_NO_UNROLL
  for (std::int32_t k_block = 0; k_block < k_blocks; k_block += kBatch) {
    parts.BeginBatch(k_block);
    multiply(std::integral_constant<int, 0>());
    if (k_block + 1 < k_blocks) multiply(std::integral_constant<int, 1>());
  }
}

// A tile's sums of integers. `begun` is called when the first products have
// been issued, `issued` when all have.
template <class Layout, class Format, class Begun, class Issued>
GEMMD_DEVICE void SumIntegers(std::int32_t k_blocks, const Begun& begun, const Issued& issued,
                              Stages<Layout>& stages, Sums<Layout, Format>& sums) {
  const auto multiply = [&](bool is_first) {
    stages.Take([&](std::uint64_t rows, std::uint64_t columns) {
      MultiplyStage<Layout, Format>(sums, rows, columns, is_first);
    });
  };
  multiply(true);
  std::uint32_t reading = stages.at.stage;
  stages.at.Next();
  begun();
  for (std::int32_t k_block = 1; k_block < k_blocks; ++k_block) {
    multiply(false);
    ptx::WgmmaWait<1>();
    half::ReleaseStage<Layout>(stages.empty, reading, stages.me);
    reading = stages.at.stage;
    stages.at.Next();
  }
  issued();
  ptx::WgmmaWait<0>();
  half::ReleaseStage<Layout>(stages.empty, reading, stages.me);
}

template <class Layout, class Format, bool kHasBlocks, bool kHasEpilogue>
GEMMD_DEVICE void Consume(const ByteParams& params, const Block<Layout>& block,
                          const Consumer& me) {
  const std::int32_t k_blocks = half::BlocksOfK(params);
  const std::uint32_t group_offset = Layout::kIsPingPong ? 0 : me.group * Layout::kGroupRows;
  const ptx::SharedAddress own_rows = block.shared + group_offset * kSpanBytes;
  const ptx::SharedAddress output =
      block.shared + Layout::kOutput + me.group * (Layout::kStoreBuffers * Layout::kBoxBytes);
  Stages<Layout> stages = {
      block,
      me,
      ptx::MakeWgmmaDescriptor(own_rows, Layout::Rows::kLeadingBytes, kAtomBytes,
                               ptx::Swizzle::k128B),
      ptx::MakeWgmmaDescriptor(block.shared + Layout::Rows::kBytes, Layout::Columns::kLeadingBytes,
                               kAtomBytes, ptx::Swizzle::k128B),
      Layout::kCluster == 1
          ? block.Empty(0)
          : ptx::MapShared(block.Empty(0), me.lane < Layout::kCluster ? me.lane : 0),
      {}};
  if (params.box_rows < Layout::kTileM) {
    if constexpr (Layout::kCluster == 1) half::ClearUnloadedRows(params, block, me);
  }
  // Scales, C and the bias are read behind the grid's turn, and D is written
  // behind it.
  bool waits = true;
  if constexpr (kHasBlocks) {
    ptx::WaitForPrecedingGrid();
    waits = false;
  }
  // Groups that promote sums wait for products again and again, which sets them
  // apart anyway.
  constexpr bool kStaggers = Layout::kIsStaggered && !Format::kIsPromoted;
  if constexpr (kStaggers) {
    if (me.group == 1) ptx::NamedBarrierSync(half::kStaggerBarrier, 2 * kWarpgroup);
  }
  if constexpr (Layout::kIsPingPong) {
    if (me.group == 1) ptx::NamedBarrierArrive(half::kTurnBarrier, 2 * kWarpgroup);
  }
  std::uint32_t turn = 0;
  for (TileWalk<ByteParams> walk(params, block); walk.tile() < walk.end(); walk.Advance(), ++turn) {
    if constexpr (Layout::kIsPingPong) {
      if (turn % 2 != me.group) {
        stages.at.Skip(static_cast<std::uint32_t>(k_blocks));
        continue;
      }
    }
    const bool is_last = walk.next() >= walk.end();
    TileCorner corner = half::CornerOf(params, block, walk.tile());
    corner.m += static_cast<std::int32_t>(group_offset);
    Sums<Layout, Format> sums;
    if constexpr (Layout::kIsPingPong) {
      ptx::NamedBarrierSync(half::kTurnBarrier + me.group, 2 * kWarpgroup);
    }
    if constexpr (Format::kIsPromoted) {
      SumFloats<Layout, Format, kHasBlocks>(params, corner, stages, sums);
    } else {
      const auto begun = [&] {
        if constexpr (kStaggers) {
          if (me.group == 0 && turn == 0) {
            ptx::NamedBarrierArrive(half::kStaggerBarrier, 2 * kWarpgroup);
          }
        }
      };
      const auto issued = [&] {
        if constexpr (Layout::kIsPingPong) {
          if (!is_last) {
            ptx::NamedBarrierArrive(half::kTurnBarrier + (me.group ^ 1), 2 * kWarpgroup);
          }
        }
      };
      SumIntegers<Layout, Format>(k_blocks, begun, issued, stages, sums);
    }
    if (waits) ptx::WaitForPrecedingGrid();
    waits = false;
    FinishTile<Layout, Format, kHasEpilogue>(params, me, sums, output, own_rows, is_last, corner);
  }
  if constexpr (!kHasEpilogue && !Layout::kStoresByUnit) {
    if (me.lane == 0) ptx::BulkWaitRead<0>();
    ptx::SyncWarp();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::bytes
