// The consumers: warpgroups that multiply what lies in the stages and write D.
#pragma once

#include "kernels/hopper/common/wgmma_types.h"
#include "kernels/hopper/half/wgmma_epilogue.h"
#include "kernels/hopper/half/wgmma_store.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Where boxes of A are shorter than a tile, the rest of every stage: zeros, because wgmma reads
// it, though nothing that comes of it is stored.
template <class Layout, class Params>
GEMMD_DEVICE void ClearUnloadedRows(const Params& params, const Block<Layout>& block,
                                    const Consumer& me) {
  const std::uint32_t group_end = (me.group + 1) * (Layout::kTileM / Layout::kConsumers);
  const std::uint32_t group_first = me.group * (Layout::kTileM / Layout::kConsumers);
  const std::uint32_t first = params.box_rows > group_first ? params.box_rows : group_first;
  for (std::uint32_t stage = 0; stage < Layout::kStages; ++stage) {
    for (std::uint32_t at = first * kSpanBytes + (me.warp * 32 + me.lane) * 16;
         at < group_end * kSpanBytes; at += kWarpgroup * 16) {
      ptx::StoreShared(block.Stage(stage) + at, ptx::Vector4{0, 0, 0, 0});
    }
  }
  ptx::FenceProxyAsync();
  // The groups together: in ping-pong each reads all rows.
  ptx::NamedBarrierSync(kClearedBarrier, Layout::kConsumers * kWarpgroup);
}

// One stage's products, committed.
template <class Layout, class Element, Major kRowMajor, Major kColumnMajor>
GEMMD_DEVICE void MultiplyStage(Accumulators<Layout>& sums, std::uint64_t rows,
                                std::uint64_t columns, bool is_first) {
  constexpr int kSteps = kTileK / 16;
  ptx::WgmmaFence();
  GEMMD_UNROLL
  for (int x = 0; x < kSteps * Layout::kRowBlocks; ++x) {
    const int step = Layout::kFinishesRowsFirst ? x % kSteps : x / Layout::kRowBlocks;
    const int i = Layout::kFinishesRowsFirst ? x / kSteps : x % Layout::kRowBlocks;
    ptx::Wgmma<Element::kType, Layout::kTileN, kRowMajor, kColumnMajor>(
        sums[i], MoveDescriptor(rows, i * kRowBlockBytes + step * Layout::Rows::kStepBytes),
        MoveDescriptor(columns, step * Layout::Columns::kStepBytes), !(is_first && step == 0));
  }
  ptx::WgmmaCommit();
}

// One warp of a group tells the producers of the cluster that the group has read a stage.
template <class Layout>
GEMMD_DEVICE void ReleaseStage(ptx::SharedAddress empty, std::uint32_t stage, const Consumer& me) {
  if (me.warp != 0) return;
  ptx::SyncWarp();
  if (me.lane >= Layout::kCluster) return;
  if constexpr (Layout::kCluster == 1) {
    ptx::MbarrierArrive(empty + stage * ptx::kMbarrierBytes);
  } else {
    ptx::MbarrierArriveRemote(empty + stage * ptx::kMbarrierBytes);
  }
}

template <class Layout, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue,
          class Params>
GEMMD_DEVICE void Consume(const Params& params, const Block<Layout>& block, const Consumer& me) {
  const std::int32_t k_blocks = BlocksOfK(params);
  const std::uint32_t group_offset = Layout::kIsPingPong ? 0 : me.group * Layout::kGroupRows;
  const ptx::SharedAddress own_rows = block.shared + group_offset * kSpanBytes;
  const std::uint64_t rows = ptx::MakeWgmmaDescriptor(own_rows, Layout::Rows::kLeadingBytes,
                                                      kAtomBytes, ptx::Swizzle::k128B);
  const std::uint64_t columns =
      ptx::MakeWgmmaDescriptor(block.shared + Layout::Rows::kBytes, Layout::Columns::kLeadingBytes,
                               kAtomBytes, ptx::Swizzle::k128B);
  const ptx::SharedAddress output =
      block.shared + Layout::kOutput + me.group * (Layout::kStoreBuffers * Layout::kBoxBytes);
  const ptx::SharedAddress empty =
      Layout::kCluster == 1
          ? block.Empty(0)
          : ptx::MapShared(block.Empty(0), me.lane < Layout::kCluster ? me.lane : 0);
  if (params.box_rows < Layout::kTileM) {
    if constexpr (Layout::Rows::kIsKMajor && Layout::kCluster == 1 && !Params::kIsGroups) {
      ClearUnloadedRows(params, block, me);
    }
  }
  // Waits for the grid's turn before C and the bias are read. Where both operands are settled no
  // stage says that the turn has come, so it waits before D is written, too.
  bool waits = kHasEpilogue || params.settled == SettledOperands::kBoth;
  if constexpr (Layout::kIsStaggered) {
    if (me.group == 1) ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup);
  }
  if constexpr (Layout::kIsPingPong) {
    if (me.group == 1) ptx::NamedBarrierArrive(kTurnBarrier, 2 * kWarpgroup);
  }
  mma::RingPosition<Layout::kStages> at;
  std::uint32_t turn = 0;
  for (TileWalk<Params> walk(params, block); walk.tile() < walk.end(); walk.Advance(), ++turn) {
    if constexpr (Layout::kIsPingPong) {
      if (turn % 2 != me.group) {
        at.Skip(static_cast<std::uint32_t>(k_blocks));
        continue;
      }
    }
    const bool is_last = walk.next() >= walk.end();
    TileCorner corner = CornerOf(params, block, walk.tile());
    corner.m += static_cast<std::int32_t>(group_offset);
    Accumulators<Layout> sums;
    if constexpr (Layout::kIsPingPong) {
      ptx::NamedBarrierSync(kTurnBarrier + me.group, 2 * kWarpgroup);
    }
    const auto multiply = [&](bool is_first) {
      ptx::MbarrierWait(block.Full(at.stage), at.parity);
      const std::uint32_t offset = at.stage * Layout::kStageBytes;
      MultiplyStage<Layout, Element, kRowMajor, kColumnMajor>(
          sums, MoveDescriptor(rows, offset), MoveDescriptor(columns, offset), is_first);
    };
    multiply(true);
    std::uint32_t reading = at.stage;
    at.Next();
    if constexpr (Layout::kIsStaggered) {
      if (me.group == 0 && turn == 0) ptx::NamedBarrierArrive(kStaggerBarrier, 2 * kWarpgroup);
    }
    for (std::int32_t k_block = 1; k_block < k_blocks; ++k_block) {
      multiply(false);
      ptx::WgmmaWait<1>();
      ReleaseStage<Layout>(empty, reading, me);
      reading = at.stage;
      at.Next();
    }
    if constexpr (Layout::kIsPingPong) {
      if (!is_last) ptx::NamedBarrierArrive(kTurnBarrier + (me.group ^ 1), 2 * kWarpgroup);
    }
    ptx::WgmmaWait<0>();
    ReleaseStage<Layout>(empty, reading, me);
    if (waits) ptx::WaitForPrecedingGrid();
    waits = false;
    if constexpr (kHasEpilogue) {
      if (Element::kType == ptx::WgmmaType::kTf32 && params.writes_sums) {
        StoreSums<Layout>(params, me, sums, corner);
      } else {
        FinishTile<Layout, Element>(params, me, sums, output, corner);
      }
    } else {
      StoreTile<Layout, Element>(params, me, sums, output, own_rows, is_last, corner);
    }
  }
  if constexpr (!kHasEpilogue && !Layout::kStoresByUnit) {
    if (me.lane == 0) ptx::BulkWaitRead<0>();
    ptx::SyncWarp();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
