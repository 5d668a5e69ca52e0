// Batches of small products by mma.sync. A warp has a tile of a product. Tiny products have one
// such tile, which is read from global memory; larger ones come through shared memory, by cp.async,
// while the ones ahead are multiplied.
#pragma once

#include "kernels/hopper/small/finish.h"
#include "kernels/hopper/small/stage.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

inline constexpr std::uint32_t kWarps = 4;  // of a block

// A part of a product.
struct Place {
  ProductPlanes planes;
  std::int32_t row;
  std::int32_t column;
};

// `tile`: among those of all products. REQUIRES: there are so many.
GEMMD_DEVICE Place PlaceOf(const BatchParams& params, std::uint32_t tile, std::int32_t tile_rows,
                           std::int32_t tile_columns) {
  const std::uint32_t tiles = params.row_tiles * params.column_tiles;
  const std::uint32_t product = tile / tiles;
  const std::uint32_t in_product = tile - product * tiles;
  const std::uint32_t row = in_product / params.column_tiles;
  const std::uint32_t column = in_product - row * params.column_tiles;
  return {PlanesOf(params, product), static_cast<std::int32_t>(row) * tile_rows,
          static_cast<std::int32_t>(column) * tile_columns};
}

GEMMD_DEVICE int StepsOfK(const BatchParams& params, std::int32_t k) {
  return (params.k - k + kBlock - 1) / kBlock;
}

// Each warp computes a tile and ends.
template <class Numbers, Reading kOfA, Reading kOfB>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32 * kWarps, 1)
    TinyProducts(const GEMMD_GRID_CONSTANT BatchParams params) {
  using T = typename Numbers::Storage;
  ptx::LaunchDependentGrid();
  ptx::WaitForPrecedingGrid();
  const std::uint32_t tile = ptx::BlockIndexX() * kWarps + ptx::ThreadIndex() / 32;
  if (tile >= params.tiles) return;
  const Place place = PlaceOf(params, tile, Numbers::kRows * kBlock, Numbers::kColumns * kBlock);
  const std::uint32_t lane = ptx::LaneIndex();
  const auto line = static_cast<std::int32_t>(lane / 4 * 2);
  Numbers numbers;
  GEMMD_NO_UNROLL
  for (std::int32_t k = 0; k < params.k; k += Numbers::kStageK) {
    const auto read = [&](int i) {
      Step<T, Numbers::kRows, Numbers::kColumns> step;
      GEMMD_UNROLL
      for (int row = 0; row < Numbers::kRows; ++row) {
        step.rows[row] = ReadGlobal<T, kOfA, Numbers::kIsOrdered>(
            place.planes.a, params.a, params.k, place.row + row * kBlock + line, k + i * kBlock,
            lane);
      }
      GEMMD_UNROLL
      for (int column = 0; column < Numbers::kColumns; ++column) {
        step.columns[column] = ReadGlobal<T, kOfB, Numbers::kIsOrdered>(
            place.planes.b, params.b, params.k, place.column + column * kBlock + line,
            k + i * kBlock, lane);
      }
      return step;
    };
    numbers.Add(read, StepsOfK(params, k));
  }
  StoreTile<Numbers>(params, place.planes, place.row, place.column, numbers.Finish());
}

// Warps that share stages: kDown x kAcross of them, each with a tile. One, or all of a block.
template <class Numbers, Reading kOfA, Reading kOfB, int kDown_, int kAcross_, int kStages_>
struct GroupLayout {
  using T = typename Numbers::Storage;
  static constexpr int kDown = kDown_;
  static constexpr int kAcross = kAcross_;
  static constexpr int kWarpsOfGroup = kDown * kAcross;
  static constexpr int kThreads = 32 * kWarpsOfGroup;
  static constexpr int kGroups = static_cast<int>(kWarps) / kWarpsOfGroup;  // of a block
  static constexpr int kTileRows = kDown * Numbers::kRows * kBlock;
  static constexpr int kTileColumns = kAcross * Numbers::kColumns * kBlock;
  using A = OperandStage<T, kOfA, Numbers::kIsOrdered, kTileRows>;
  using B = OperandStage<T, kOfB, Numbers::kIsOrdered, kTileColumns>;
  static constexpr int kStages = kStages_;
  static constexpr int kStageBytes = A::kBytes + B::kBytes;
  static constexpr int kSharedBytes = kGroups * kStages * kStageBytes;
  static_assert(kWarpsOfGroup == 1 || kGroups == 1);
};

// A group's copies: stage by stage, tile by tile.
template <class Layout>
class Copies {
 public:
  GEMMD_DEVICE Copies(const BatchParams& params, std::uint32_t first_tile)
      : params_(params), tile_(first_tile), thread_(ptx::ThreadIndex() % Layout::kThreads) {}

  // Issues those of the next stage, if there is one, as a group.
  GEMMD_DEVICE void Next(ptx::SharedAddress stage) {
    if (tile_ < params_.tiles) {
      if (k_ == 0) {
        const Place place = PlaceOf(params_, tile_, Layout::kTileRows, Layout::kTileColumns);
        a_.Start(place.planes.a, params_.a, place.row, thread_);
        b_.Start(place.planes.b, params_.b, place.column, thread_);
      }
      a_.Copy(stage, params_.a, params_.k, thread_);
      b_.Copy(stage + Layout::A::kBytes, params_.b, params_.k, thread_);
      k_ += kStageLineBytes / static_cast<int>(sizeof(typename Layout::T));
      if (k_ >= params_.k) {
        k_ = 0;
        tile_ += ptx::GridSizeX() * Layout::kGroups;
      }
    }
    ptx::CopyAsyncCommit();
  }

 private:
  const BatchParams& params_;
  std::uint32_t tile_;
  const std::uint32_t thread_;
  std::int32_t k_ = 0;
  typename Layout::A::template Copier<Layout::kThreads> a_;
  typename Layout::B::template Copier<Layout::kThreads> b_;
};

// The stages in turn.
template <class Layout>
class StageRing {
 public:
  GEMMD_DEVICE explicit StageRing(ptx::SharedAddress stages) : stages_(stages) {}
  GEMMD_DEVICE ptx::SharedAddress Take() {
    const ptx::SharedAddress stage = stages_ + at_ * Layout::kStageBytes;
    at_ = at_ + 1 == Layout::kStages ? 0 : at_ + 1;
    return stage;
  }

 private:
  const ptx::SharedAddress stages_;
  std::uint32_t at_ = 0;
};

template <class Numbers, Reading kOfA, Reading kOfB, int kDown, int kAcross, int kStages,
          int kBlocks>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32 * kWarps, kBlocks)
    SmallProducts(const GEMMD_GRID_CONSTANT BatchParams params) {
  using Layout = GroupLayout<Numbers, kOfA, kOfB, kDown, kAcross, kStages>;
  using T = typename Numbers::Storage;
  ptx::LaunchDependentGrid();
  ptx::WaitForPrecedingGrid();
  const std::uint32_t warp = ptx::Shuffle(ptx::ThreadIndex() / 32, 0);  // uniform
  const std::uint32_t lane = ptx::LaneIndex();
  const std::uint32_t group = warp / Layout::kWarpsOfGroup;
  const std::uint32_t in_group = warp % Layout::kWarpsOfGroup;
  const std::uint32_t warp_row = in_group / kAcross * (Numbers::kRows * kBlock);
  const std::uint32_t warp_column = in_group % kAcross * (Numbers::kColumns * kBlock);
  const typename Layout::A a(warp_row, lane);
  const typename Layout::B b(warp_column, lane);
  const ptx::SharedAddress stages = ptx::SharedBase() + group * (kStages * Layout::kStageBytes);
  StageRing<Layout> filled(stages);
  StageRing<Layout> read(stages);
  const std::uint32_t first = ptx::BlockIndexX() * Layout::kGroups + group;
  Copies<Layout> copies(params, first);
  GEMMD_UNROLL
  for (int i = 0; i + 1 < kStages; ++i) copies.Next(filled.Take());
  for (std::uint32_t tile = first; tile < params.tiles;
       tile += ptx::GridSizeX() * Layout::kGroups) {
    Numbers numbers;
    GEMMD_NO_UNROLL
    for (std::int32_t k = 0; k < params.k; k += Numbers::kStageK) {
      ptx::CopyAsyncWait<kStages - 2>();
      // All have copied this stage, and are done with the one that is filled next.
      if constexpr (Layout::kWarpsOfGroup == 1) {
        ptx::SyncWarp();
      } else {
        ptx::SyncThreads();
      }
      copies.Next(filled.Take());
      const ptx::SharedAddress stage = read.Take();
      const auto read_step = [&](int i) {
        Step<T, Numbers::kRows, Numbers::kColumns> step;
        GEMMD_UNROLL
        for (int row = 0; row < Numbers::kRows; ++row) step.rows[row] = a.Read(stage, row, i);
        GEMMD_UNROLL
        for (int column = 0; column < Numbers::kColumns; ++column) {
          step.columns[column] = b.Read(stage + Layout::A::kBytes, column, i);
        }
        return step;
      };
      numbers.Add(read_step, StepsOfK(params, k));
    }
    const Place place = PlaceOf(params, tile, Layout::kTileRows, Layout::kTileColumns);
    StoreTile<Numbers>(params, place.planes, place.row + static_cast<std::int32_t>(warp_row),
                       place.column + static_cast<std::int32_t>(warp_column), numbers.Finish());
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
