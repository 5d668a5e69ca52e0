// The pass ahead of a product: for each line of both operands its power of two, then its parts.
#pragma once

#include "kernels/hopper/f16x3/layout.h"
#include "kernels/hopper/f16x3/params.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

inline constexpr int kSplitThreads = 512;
inline constexpr int kSplitWarps = kSplitThreads / 32;
inline constexpr int kSplitK = 32;  // of a warp at a time

// The largest magnitudes that each warp has met, of 8 lines.
inline constexpr int kSplitSharedBytes = kSplitWarps * 8 * 4;

// Eight elements of a line, zeros where there are none.
GEMMD_DEVICE void LoadEight(const SplitOperand& operand, std::int32_t k_end, std::int32_t line,
                            std::int32_t k, float (&x)[8]) {
  GEMMD_UNROLL
  for (int i = 0; i < 8; ++i) x[i] = 0;
  if (line >= operand.lines) return;
  const float* const from =
      operand.from.data + line * operand.from.line_stride + k * operand.from.k_stride;
  if (operand.has_units && k + 8 <= k_end) {
    GEMMD_UNROLL
    for (int half = 0; half < 2; ++half) {
      const auto unit = ptx::LoadGlobal(reinterpret_cast<const ptx::Vector4*>(from + half * 4));
      x[half * 4] = ptx::FloatOfBits(unit.x);
      x[half * 4 + 1] = ptx::FloatOfBits(unit.y);
      x[half * 4 + 2] = ptx::FloatOfBits(unit.z);
      x[half * 4 + 3] = ptx::FloatOfBits(unit.w);
    }
    return;
  }
  GEMMD_UNROLL
  for (int i = 0; i < 8; ++i) {
    if (k + i < k_end) x[i] = ptx::LoadGlobal(from + i * operand.from.k_stride);
  }
}

GEMMD_DEVICE std::uint32_t Larger(std::uint32_t x, std::uint32_t y) { return x > y ? x : y; }

// Eight numbers of a line as parts: the `chunk`th of K.
GEMMD_DEVICE void StoreParts(const SplitOperand& operand, std::uint32_t k_stages,
                             std::uint32_t line, std::uint32_t chunk, const float (&x)[8],
                             float power) {
  PartWords words[4];
  GEMMD_UNROLL
  for (int i = 0; i < 4; ++i) words[i] = SplitPair(x[2 * i], x[2 * i + 1], power);
  const std::uint32_t group = line / 8;
  const std::uint32_t in_group = line % 8;
  const std::uint32_t tile = group / operand.tile_groups;
  const std::uint64_t piece = (std::uint64_t{tile} * k_stages + chunk / 8) * operand.tile_groups +
                              (group - tile * operand.tile_groups);
  std::uint16_t* const to =
      operand.to +
      (piece * kPartGroupBytes + in_group * kPartLineBytes + ((chunk % 8) ^ in_group) * 16) / 2;
  GEMMD_UNROLL
  for (int part = 0; part < kParts; ++part) {
    ptx::StoreGlobal(reinterpret_cast<ptx::Vector4*>(to + part * (kPartAtomBytes / 2)),
                     ptx::Vector4{words[0].word[part], words[1].word[part], words[2].word[part],
                                  words[3].word[part]});
  }
}

GEMMD_DEVICE std::uint32_t LargestOf(const float (&x)[8], std::uint32_t largest) {
  GEMMD_UNROLL
  for (int i = 0; i < 8; ++i) largest = Larger(largest, MagnitudeOf(x[i]));
  return largest;
}

// Where a warp is: its lanes have 8 elements each, of 8 lines and 32 of K.
struct SplitPlace {
  std::uint32_t warp;
  std::uint32_t lane;
  GEMMD_DEVICE std::uint32_t line() const { return lane / 4; }
  GEMMD_DEVICE std::int32_t k(std::uint32_t block) const {
    return static_cast<std::int32_t>(block * kSplitK + lane % 4 * 8);
  }
};

// The largest magnitude of the lane's line: all of the block's warps together.
GEMMD_DEVICE std::uint32_t LargestOfLine(const SplitOperand& operand, std::int32_t k_end,
                                         std::int32_t line, const SplitPlace& me,
                                         std::uint32_t k_blocks) {
  std::uint32_t largest = 0;
  GEMMD_NO_UNROLL
  for (std::uint32_t block = me.warp; block < k_blocks; block += 2 * kSplitWarps) {
    float x[2][8];
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < 2; ++i) {
      LoadEight(operand, k_end, line, me.k(block + i * kSplitWarps), x[i]);
    }
    largest = LargestOf(x[1], LargestOf(x[0], largest));
  }
  largest = Larger(largest, ptx::Shuffle(largest, me.lane ^ 1));
  largest = Larger(largest, ptx::Shuffle(largest, me.lane ^ 2));
  const ptx::SharedAddress met = ptx::SharedBase() + me.line() * 4;
  if (me.lane % 4 == 0) ptx::StoreShared(met + me.warp * 32, largest);
  ptx::SyncThreads();
  GEMMD_UNROLL
  for (std::uint32_t warp = 0; warp < kSplitWarps; ++warp) {
    largest = Larger(largest, ptx::LoadShared<std::uint32_t>(met + warp * 32));
  }
  ptx::SyncThreads();  // before the next lines' are stored
  return largest;
}

// A block takes 8 lines at a time and reads them twice, so few blocks run at once: what they have
// read is still in the L2.
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kSplitThreads, 2)
    SplitOperands(const GEMMD_GRID_CONSTANT SplitParams params) {
  // The product starts once its turn is the next: it reads exponents, which the launch ahead may
  // still read from the same place.
  ptx::WaitForPrecedingGrid();
  ptx::LaunchDependentGrid();
  const SplitPlace me = {ptx::ThreadIndex() / 32, ptx::ThreadIndex() % 32};
  const std::uint32_t k_blocks = params.k_stages * (kStageK / kSplitK);
  const std::uint32_t all = params.rows.groups + params.columns.groups;
  for (std::uint32_t at = ptx::BlockIndexX(); at < all; at += ptx::GridSizeX()) {
    const bool is_row = at < params.rows.groups;
    const SplitOperand& operand = is_row ? params.rows : params.columns;
    const std::uint32_t group = is_row ? at : at - params.rows.groups;
    const auto line = static_cast<std::int32_t>(group * 8 + me.line());
    const std::int32_t shift = ShiftOf(LargestOfLine(operand, params.k, line, me, k_blocks));
    if (me.warp == 0 && me.lane % 4 == 0) ptx::StoreGlobal(operand.exponents + line, -shift);
    const float power = PowerOfTwo(shift);
    GEMMD_NO_UNROLL
    for (std::uint32_t block = me.warp; block < k_blocks; block += kSplitWarps) {
      float x[8];
      LoadEight(operand, params.k, line, me.k(block), x);
      StoreParts(operand, params.k_stages, static_cast<std::uint32_t>(line),
                 block * (kSplitK / 8) + me.lane % 4, x, power);
    }
  }
}

inline constexpr int kLineThreads = 256;
// The chunks of eight elements that a thread keeps between its two looks at a line: all of a line
// of up to 8192.
inline constexpr int kHeldChunks = 4;
inline constexpr int kLineSharedBytes = 2 * (kLineThreads / 32) * 4;

// The pass where the lines of both operands run along K in units of 16 bytes: a block takes a line
// at a time. It reads the first 8192 elements once, and those past them twice.
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kLineThreads, 4)
    SplitLines(const GEMMD_GRID_CONSTANT SplitParams params) {
  ptx::WaitForPrecedingGrid();
  ptx::LaunchDependentGrid();
  constexpr std::uint32_t kWarps = kLineThreads / 32;
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t chunks = params.k_stages * (kStageK / 8);
  const std::uint32_t rows = params.rows.groups * 8;
  const std::uint32_t all = rows + params.columns.groups * 8;
  ptx::SharedAddress met = ptx::SharedBase();
  for (std::uint32_t at = ptx::BlockIndexX(); at < all; at += ptx::GridSizeX()) {
    const SplitOperand& operand = at < rows ? params.rows : params.columns;
    const std::uint32_t line = at < rows ? at : at - rows;
    const auto load = [&](std::uint32_t chunk, float(&x)[8]) {
      LoadEight(operand, params.k, static_cast<std::int32_t>(line),
                static_cast<std::int32_t>(chunk * 8), x);
    };
    float held[kHeldChunks][8];
    std::uint32_t largest = 0;
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < kHeldChunks; ++i) load(thread + i * kLineThreads, held[i]);
    GEMMD_UNROLL
    for (int i = 0; i < kHeldChunks; ++i) largest = LargestOf(held[i], largest);
    GEMMD_NO_UNROLL
    for (std::uint32_t chunk = thread + kHeldChunks * kLineThreads; chunk < chunks;
         chunk += kLineThreads) {
      float x[8];
      load(chunk, x);
      largest = LargestOf(x, largest);
    }
    GEMMD_UNROLL
    for (std::uint32_t step = 1; step < 32; step *= 2) {
      largest = Larger(largest, ptx::Shuffle(largest, thread % 32 ^ step));
    }
    if (thread % 32 == 0) ptx::StoreShared(met + thread / 32 * 4, largest);
    ptx::SyncThreads();
    GEMMD_UNROLL
    for (std::uint32_t warp = 0; warp < kWarps; ++warp) {
      largest = Larger(largest, ptx::LoadShared<std::uint32_t>(met + warp * 4));
    }
    // The next line's are stored elsewhere, and those after it behind another barrier.
    met = ptx::SharedBase() + (met == ptx::SharedBase() ? kWarps * 4 : 0);
    const std::int32_t shift = ShiftOf(largest);
    if (thread == 0) ptx::StoreGlobal(operand.exponents + line, -shift);
    const float power = PowerOfTwo(shift);
    GEMMD_UNROLL
    for (std::uint32_t i = 0; i < kHeldChunks; ++i) {
      const std::uint32_t chunk = thread + i * kLineThreads;
      if (chunk < chunks) StoreParts(operand, params.k_stages, line, chunk, held[i], power);
    }
    GEMMD_NO_UNROLL
    for (std::uint32_t chunk = thread + kHeldChunks * kLineThreads; chunk < chunks;
         chunk += kLineThreads) {
      float x[8];
      load(chunk, x);
      StoreParts(operand, params.k_stages, line, chunk, x, power);
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
