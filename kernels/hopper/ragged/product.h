// The product behind a repack (params.h): a block a tile of 256x128, one thread that loads
// by TMA, two warpgroups that multiply. Sums in order of K by 16, as the other Hopper kernels.
#pragma once

#include "kernels/hopper/common/wgmma_types.h"
#include "kernels/hopper/ragged/params.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/registers.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::ragged {
inline namespace GEMMD_BACKEND {

// A named barrier, of all that multiply.
inline constexpr std::uint32_t kConsumerBarrier = 1;

struct Block : mma::Ring<ProductLayout> {
  std::int32_t m;  // the tile's corner
  std::int32_t n;
  std::int32_t k_blocks;
};

GEMMD_DEVICE void LoadB(const ProductParams& params, const Block& block, std::uint32_t stage,
                        std::int32_t k_block) {
  const ptx::SharedAddress to = block.Stage(stage) + ProductLayout::kABytes;
  GEMMD_UNROLL
  for (int c = 0; c < kClasses; ++c) {
    ptx::TensorLoad2D(to + c * ProductLayout::kBoxBytes, &params.b[c], k_block * 64,
                      block.n / kClasses, block.Full(stage));
  }
}

GEMMD_DEVICE void Produce(const ProductParams& params, const Block& block) {
  constexpr std::int32_t kStages = ProductLayout::kStages;
  const auto load_a = [&](std::uint32_t stage, std::int32_t k_block) {
    ptx::TensorLoad2D(block.Stage(stage), &params.a, k_block * 64, block.m, block.Full(stage));
  };
  const std::int32_t ahead = block.k_blocks < kStages ? block.k_blocks : kStages;
  // Loads B while the repack still runs, where no launch ahead of the repack may write it. Its
  // stages are not armed before the grid's turn, so that with a stage a consumer knows that the
  // turn has come.
  if (!params.is_b_settled) ptx::WaitForPrecedingGrid();
  for (std::int32_t k_block = 0; k_block < ahead; ++k_block) {
    LoadB(params, block, static_cast<std::uint32_t>(k_block), k_block);
  }
  if (params.is_b_settled) ptx::WaitForPrecedingGrid();
  for (std::int32_t k_block = 0; k_block < ahead; ++k_block) {
    const auto stage = static_cast<std::uint32_t>(k_block);
    ptx::MbarrierArriveExpect(block.Full(stage), ProductLayout::kStageBytes);
    load_a(stage, k_block);
  }
  for (std::int32_t k_block = kStages; k_block < block.k_blocks; ++k_block) {
    const auto stage = static_cast<std::uint32_t>(k_block % kStages);
    ptx::MbarrierWait(block.Empty(stage), static_cast<std::uint32_t>(k_block / kStages - 1) % 2);
    ptx::MbarrierArriveExpect(block.Full(stage), ProductLayout::kStageBytes);
    load_a(stage, k_block);
    LoadB(params, block, stage, k_block);
  }
}

using Fragments = std::uint32_t[4][4];  // of a block of K, by steps of 16

// A warp's 16 rows of one class, moved into place by words and half a word.
GEMMD_DEVICE void LoadFragments(Fragments& fragments, ptx::SharedAddress from, bool is_odd) {
  GEMMD_UNROLL
  for (int step = 0; step < 4; ++step) {
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const ptx::SharedAddress at =
          from + (i % 2) * (8 * ProductLayout::kBoxPitch) + step * 32 + (i / 2) * 16;
      const auto low = ptx::LoadShared<std::uint32_t>(at);
      fragments[step][i] = low;
      if (is_odd) {
        fragments[step][i] = low >> 16 | ptx::LoadShared<std::uint32_t>(at + 4) << 16;
      }
    }
  }
}

// From staged columns to D's rows, whose alignments may alternate: a word of two neighbours where
// it is aligned, single elements at the ends. A warp takes every eighth row.
GEMMD_DEVICE void StoreRows(const ProductParams& params, const Block& block, std::uint32_t warp,
                            std::uint32_t lane) {
  const auto at = [&](std::int32_t column, std::int32_t row) {
    const auto both = ptx::LoadShared<std::uint32_t>(
        block.shared +
        static_cast<std::uint32_t>(column * ProductLayout::kOutputPitch + row / 2 * 4));
    return row % 2 == 0 ? both & 0xffff : both >> 16;
  };
  const std::int32_t rows = params.m - block.m < kTileM ? params.m - block.m : kTileM;
  const std::int32_t columns = params.n - block.n < kTileN ? params.n - block.n : kTileN;
  for (auto row = static_cast<std::int32_t>(warp); row < rows; row += 8) {
    std::uint16_t* const d = params.d + (block.m + row) * params.d_pitch + block.n;
    const auto odd = static_cast<std::int32_t>(reinterpret_cast<std::uint64_t>(d) / 2 % 2);
    if (odd == 1 && lane == 0) ptx::StoreGlobal(d, static_cast<std::uint16_t>(at(0, row)));
    GEMMD_UNROLL
    for (int half = 0; half < 2; ++half) {
      const std::int32_t column = odd + 2 * static_cast<std::int32_t>(lane) + 64 * half;
      if (column + 1 < columns) {
        ptx::StoreGlobal(reinterpret_cast<std::uint32_t*>(d + column),
                         at(column, row) | at(column + 1, row) << 16);
      } else if (column < columns) {
        ptx::StoreGlobal(d + column, static_cast<std::uint16_t>(at(column, row)));
      }
    }
  }
}

template <class Element>
GEMMD_DEVICE void Consume(const ProductParams& params, const Block& block, std::uint32_t warp,
                          std::uint32_t lane) {
  const std::uint32_t shift = params.shift[warp];
  const ptx::SharedAddress rows = block.shared + ProductLayout::kABytes +
                                  warp * ProductLayout::kBoxBytes +
                                  lane / 4 * ProductLayout::kBoxPitch + (lane % 4 + shift / 2) * 4;
  float sums[128];
  mma::RingPosition<ProductLayout::kStages> at;
  std::uint32_t reading = 0;
  const auto multiply = [&](Fragments& fragments, bool is_first) {
    ptx::MbarrierWait(block.Full(at.stage), at.parity);
    LoadFragments(fragments, rows + at.stage * ProductLayout::kStageBytes, shift % 2 == 1);
    const std::uint64_t columns = ptx::MakeWgmmaDescriptor(block.Stage(at.stage), 16,
                                                           hopper::kAtomBytes, ptx::Swizzle::k128B);
    ptx::WgmmaFence();
    GEMMD_UNROLL
    for (int step = 0; step < 4; ++step) {
      ptx::WgmmaRegisters<Element::kType, kTileM>(sums, fragments[step], columns + step * (32 / 16),
                                                  !(is_first && step == 0));
    }
    ptx::WgmmaCommit();
    if (!is_first) {
      // The other fragments and the stage before are free.
      ptx::WgmmaWait<1>();
      ptx::SyncWarp();
      if (lane == 0) ptx::MbarrierArrive(block.Empty(reading));
    }
    reading = at.stage;
    at.Next();
  };
  Fragments even;
  Fragments odd;
  multiply(even, true);
  std::int32_t k_block = 1;
  for (; k_block + 1 < block.k_blocks; k_block += 2) {
    multiply(odd, false);
    multiply(even, false);
  }
  if (k_block < block.k_blocks) multiply(odd, false);
  ptx::WgmmaWait<0>();
  // The stages become D: the other group's products have read them too.
  ptx::NamedBarrierSync(kConsumerBarrier, 2 * hopper::kWarpgroup);
  GEMMD_UNROLL
  for (int j = 0; j < kTileM / 8; ++j) {
    const ptx::SharedAddress at =
        block.shared + (lane / 4 * 8 + warp) * ProductLayout::kOutputPitch + j * 16 + lane % 4 * 4;
    ptx::StoreShared(at, Element::Pack(sums[4 * j], sums[4 * j + 1]));
    ptx::StoreShared(at + 64 * ProductLayout::kOutputPitch,
                     Element::Pack(sums[4 * j + 2], sums[4 * j + 3]));
  }
  ptx::NamedBarrierSync(kConsumerBarrier, 2 * hopper::kWarpgroup);
  StoreRows(params, block, warp, lane);
}

template <class Element>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(ProductLayout::kThreads, 1)
    Product(const GEMMD_GRID_CONSTANT ProductParams params) {
  if constexpr (ptx::kHasWarpgroupMma) {
    const std::uint32_t thread = ptx::ThreadIndex();
    const std::uint32_t warp = ptx::Shuffle(thread / 32, 0);
    Block block;
    block.m = static_cast<std::int32_t>(ptx::BlockIndexX() % params.tiles_m) * kTileM;
    block.n = static_cast<std::int32_t>(ptx::BlockIndexX() / params.tiles_m) * kTileN;
    block.k_blocks = (params.k + 63) / 64;
    if (thread == 0) {
      for (std::uint32_t stage = 0; stage < ProductLayout::kStages; ++stage) {
        ptx::MbarrierInit(block.Full(stage), 1);
        ptx::MbarrierInit(block.Empty(stage), 8);
      }
      ptx::FenceMbarrierInit();
    }
    ptx::LaunchDependentGrid();
    ptx::SyncThreads();
    if (warp < 4) {
      ptx::DecreaseRegisters<24>();
      if (warp == 0 && ptx::ElectOne()) Produce(params, block);
    } else {
      ptx::IncreaseRegisters<240>();
      Consume<Element>(params, block, warp - 4, thread % 32);
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::ragged
