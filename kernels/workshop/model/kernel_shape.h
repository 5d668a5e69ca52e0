// A kernel of ladder D as the model sees it: tiles of 256 rows by `columns`, computed by a pair of
// blocks, in stages of `depth` of K. Bytes follow from the formats: an element of A or B takes one,
// and each 32 of K one of scales. ladder.h makes shapes of the kernels' own layouts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/workshop/model/machine.h"

namespace gemmd::model {

inline constexpr int kTileRows = 256;   // of a pair: the M of tcgen05.mma with cta_group::2
inline constexpr int kBlockRows = 128;  // of each block
inline constexpr int kSlab = 128;       // of K: one TMA box, four products of 32
inline constexpr int kScaleBlock = 32;

enum class TileOrder : std::uint8_t { kLinear, kHilbert };  // kLinear walks along rows of tiles

struct KernelShape {
  int columns = 256;       // of a tile
  int depth = 256;         // K of a stage
  int overlap = 128;       // columns of tensor memory that the two accumulators share
  int read_columns = 128;  // that an epilogue reads before it stores them
  int stages = 3;
  int store_buffers = 0;       // of D in shared memory, which TMA stores; else registers are stored
  int store_columns = 32;      // of each
  int stage_instructions = 0;  // of the thread that multiplies, from the wait to the commit
  bool multicasts_scales = false;
  TileOrder order = TileOrder::kLinear;

  // Bytes of a slab (128 of K) that land in one block: its rows of A and their scales, its half of
  // B and the scales of all of B's tile.
  int LandingBytes() const {
    return (kBlockRows + columns / 2) * kSlab + (kBlockRows + columns) * (kSlab / kScaleBlock);
  }
  int StageBytes() const { return LandingBytes() * (depth / kSlab); }
  int StoreBytes() const { return store_buffers * kBlockRows * store_columns * 4; }
  // Two accumulators, less what they share, and scales of one stage: four columns for 128 lines of
  // 128 of K.
  int TensorColumns() const {
    return 2 * columns - overlap + (1 + (columns + 127) / 128) * 4 * (depth / kSlab);
  }

  // Clocks of a slab on each unit of one block, with nothing in its way.
  double TensorClocks(const Machine& machine) const {
    return static_cast<double>(kBlockRows) * columns * kSlab /
           static_cast<double>(machine.products_per_clock);
  }
  // A slab is written once by TMA and read once by the tensor core.
  double SharedClocks(const Machine& machine) const {
    return 2.0 * LandingBytes() / machine.shared_bytes_per_clock;
  }
  double PortClocks(const Machine& machine) const {
    return LandingBytes() / machine.port_bytes_per_clock;
  }
  // Clocks in which one thread issues the copies and products of a slab.
  double IssueClocks(const Machine& machine) const {
    return machine.issue_clocks * stage_instructions * kSlab / depth;
  }
  // Clocks of a slab on the slowest of tensor core, banks and port.
  double SlabClocks(const Machine& machine) const {
    return std::max({TensorClocks(machine), SharedClocks(machine), PortClocks(machine)});
  }
};

}  // namespace gemmd::model
