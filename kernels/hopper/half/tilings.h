// The tilings of the Hopper GEMM, as values: what differs between its registry entries.
//
// A kernel sees rows and columns of its own frame: D's rows and columns, or, where D is
// column-major, D's columns and rows (common/frame.h).
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::hopper::half {

struct Tiling {
  const char* name = "";  // in the registry
  const char* idea = "";
  int tile_m = 0;             // rows of a block
  int tile_n = 0;             // columns, a multiple of 16
  int cluster_m = 1;          // blocks that share the columns' operand by multicast
  int cluster_n = 1;          // blocks that share the rows' operand
  int consumers = 2;          // warpgroups that multiply
  bool is_ping_pong = false;  // each has tiles of its own, in turns; else they share a tile's rows
  bool is_staggered = false;  // the second of two begins a block of K later, so that not both wait
  int max_stages = 0;
  int store_buffers = 1;             // boxes of D on their way, for each consumer
  bool reuses_stages = false;        // the last tile leaves through stages that are drained
  bool finishes_rows_first = false;  // all of a stage's K for 64 rows, then the next 64
  bool takes_mn_rows = false;        // the rows' operand may be MN-major
  bool takes_mn_columns = true;      // the columns' operand may
  bool has_epilogue = true;
  bool takes_groups = false;  // of rows, each with columns of its own
  // For PredictedUs(): cycles of a multiprocessor for a block of K, and for a tile.
  double k_block_cycles = 0;
  double tile_cycles = 0;
};

// Each says what differs from the values above. Figures behind each choice:
// docs/lab/hopper-tiles.md.

constexpr Tiling Coop128x256c2() {
  Tiling tiling;
  tiling.name = "sm90/coop128x256c2";
  tiling.idea = "two warpgroups share 128x256, pairs of blocks share B by multicast";
  tiling.tile_m = 128;
  tiling.tile_n = 256;
  tiling.cluster_m = 2;
  tiling.is_staggered = true;
  tiling.max_stages = 4;
  tiling.store_buffers = 2;
  tiling.reuses_stages = true;
  tiling.takes_mn_rows = true;
  tiling.takes_groups = true;
  tiling.k_block_cycles = 1024;
  tiling.tile_cycles = 1800;
  return tiling;
}

constexpr Tiling Coop128x256() {
  Tiling tiling;
  tiling.name = "sm90/coop128x256";
  tiling.idea = "two warpgroups share 128x256: one wave of a middle-sized product";
  tiling.tile_m = 128;
  tiling.tile_n = 256;
  tiling.max_stages = 4;
  tiling.store_buffers = 2;
  tiling.reuses_stages = true;
  tiling.takes_groups = true;
  tiling.k_block_cycles = 1032;
  tiling.tile_cycles = 1500;
  return tiling;
}

constexpr Tiling Coop128x112c2() {
  Tiling tiling;
  tiling.name = "sm90/coop128x112c2";
  tiling.idea = "128x112 in pairs: tiles that fill a wave where D is small and wide";
  tiling.tile_m = 128;
  tiling.tile_n = 112;
  tiling.cluster_m = 2;
  tiling.max_stages = 7;
  tiling.has_epilogue = false;
  tiling.k_block_cycles = 490;
  tiling.tile_cycles = 1000;
  return tiling;
}

constexpr Tiling Coop256x192c2() {
  Tiling tiling;
  tiling.name = "sm90/coop256x192c2";
  tiling.idea = "two warpgroups share 256x192 in pairs: the fewest bytes a flop";
  tiling.tile_m = 256;
  tiling.tile_n = 192;
  tiling.cluster_m = 2;
  tiling.is_staggered = true;
  tiling.max_stages = 3;
  tiling.store_buffers = 3;
  tiling.finishes_rows_first = true;
  tiling.has_epilogue = false;
  tiling.k_block_cycles = 1513;
  tiling.tile_cycles = 3000;
  return tiling;
}

constexpr Tiling Pp128x192c2() {
  Tiling tiling;
  tiling.name = "sm90/pp128x192c2";
  tiling.idea = "warpgroups take 128x192 in turns, one stores while the other multiplies";
  tiling.tile_m = 128;
  tiling.tile_n = 192;
  tiling.cluster_m = 2;
  tiling.is_ping_pong = true;
  tiling.max_stages = 5;
  tiling.k_block_cycles = 768;
  tiling.tile_cycles = 300;
  return tiling;
}

constexpr Tiling One64x128() {
  Tiling tiling;
  tiling.name = "sm90/one64x128";
  tiling.idea = "one warpgroup, 64x128: one wave of a small product";
  tiling.tile_m = 64;
  tiling.tile_n = 128;
  tiling.consumers = 1;
  tiling.max_stages = 8;
  tiling.takes_mn_rows = true;
  tiling.takes_groups = true;
  tiling.k_block_cycles = 384;
  tiling.tile_cycles = 900;
  return tiling;
}

constexpr Tiling One64x64() {
  Tiling tiling;
  tiling.name = "sm90/one64x64";
  tiling.idea = "one warpgroup, 64x64, twelve stages: few rows, bound by memory";
  tiling.tile_m = 64;
  tiling.tile_n = 64;
  tiling.consumers = 1;
  tiling.max_stages = 12;
  tiling.takes_groups = true;
  tiling.k_block_cycles = 256;
  tiling.tile_cycles = 500;
  return tiling;
}

constexpr Tiling One64x32() {
  Tiling tiling;
  tiling.name = "sm90/one64x32";
  tiling.idea = "one warpgroup, 64x32: the smallest products";
  tiling.tile_m = 64;
  tiling.tile_n = 32;
  tiling.consumers = 1;
  tiling.max_stages = 16;
  tiling.has_epilogue = false;
  tiling.k_block_cycles = 271;
  tiling.tile_cycles = 400;
  return tiling;
}

constexpr Tiling One64x128c2() {
  Tiling tiling;
  tiling.name = "sm90/one64x128c2";
  tiling.idea = "one warpgroup, 64x128 in pairs that share B: 65 to 128 rows";
  tiling.tile_m = 64;
  tiling.tile_n = 128;
  tiling.cluster_m = 2;
  tiling.consumers = 1;
  tiling.max_stages = 9;
  tiling.k_block_cycles = 350;
  tiling.tile_cycles = 1800;
  return tiling;
}

constexpr Tiling Coop128x128c2() {
  Tiling tiling;
  tiling.name = "sm90/coop128x128c2";
  tiling.idea = "two warpgroups share 128x128 in pairs: one wave of few rows";
  tiling.tile_m = 128;
  tiling.tile_n = 128;
  tiling.cluster_m = 2;
  tiling.is_staggered = true;
  tiling.max_stages = 6;
  tiling.store_buffers = 2;
  tiling.reuses_stages = true;
  tiling.k_block_cycles = 600;
  tiling.tile_cycles = 1800;
  return tiling;
}

// A tiling's constant, k and the function's name, is its place in kTilings, which is the order of
// the registry: selection takes the first of equal predictions.
#define GEMMD_HOPPER_TILINGS(ROW) \
  ROW(Coop128x256c2)              \
  ROW(Coop128x256)                \
  ROW(Coop128x112c2)              \
  ROW(Coop256x192c2)              \
  ROW(Pp128x192c2)                \
  ROW(One64x128)                  \
  ROW(One64x64)                   \
  ROW(One64x32)                   \
  ROW(One64x128c2)                \
  ROW(Coop128x128c2)

#define GEMMD_HOPPER_TILING_CONSTANT(name) k##name,
enum TilingPlace : int { GEMMD_HOPPER_TILINGS(GEMMD_HOPPER_TILING_CONSTANT) kTilingCount };
#undef GEMMD_HOPPER_TILING_CONSTANT

#define GEMMD_HOPPER_TILING_VALUES(name) name(),
inline constexpr Tiling kTilings[] = {GEMMD_HOPPER_TILINGS(GEMMD_HOPPER_TILING_VALUES)};
#undef GEMMD_HOPPER_TILING_VALUES
#undef GEMMD_HOPPER_TILINGS

// Returns whether a batch of equal problems is one launch. Pairs share operands by multicast, which
// has no form here for maps of a batch; their problems are large enough for launches of their own.
constexpr bool TakesBatches(const Tiling& tiling) {
  return tiling.cluster_m * tiling.cluster_n == 1;
}

// Return how many tilings have an epilogue, or take groups.
constexpr int TilingsWithEpilogue() {
  int count = 0;
  for (const Tiling& tiling : kTilings) count += tiling.has_epilogue ? 1 : 0;
  return count;
}
constexpr int TilingsWithGroups() {
  int count = 0;
  for (const Tiling& tiling : kTilings) count += tiling.takes_groups ? 1 : 0;
  return count;
}

}  // namespace gemmd::hopper::half
