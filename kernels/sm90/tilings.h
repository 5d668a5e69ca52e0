// The tilings of the Hopper GEMM, as values: what differs between its registry entries.
//
// A kernel sees rows and columns of its own frame: D's rows and columns, or, where D is
// column-major, D's columns and rows (frame.h).
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::sm90 {

struct Tiling {
  const char* name;  // in the registry
  const char* idea;
  int tile_m;         // rows of a block
  int tile_n;         // columns, a multiple of 16
  int cluster_m;      // blocks that share the columns' operand by multicast
  int cluster_n;      // blocks that share the rows' operand
  int consumers;      // warpgroups that multiply
  bool is_ping_pong;  // each has tiles of its own, in turns; else they share a tile's rows
  bool is_staggered;  // the second of two begins a block of K later, so that not both wait
  int max_stages;
  int store_buffers;         // boxes of D on their way, for each consumer
  bool reuses_stages;        // the last tile leaves through stages that are drained
  bool finishes_rows_first;  // all of a stage's K for 64 rows, then the next 64
  bool takes_mn_rows;        // the rows' operand may be MN-major
  bool takes_mn_columns;     // the columns' operand may
  bool has_epilogue;
  // For PredictedUs(): cycles of a multiprocessor for a block of K, and for a tile.
  double k_block_cycles;
  double tile_cycles;
};

// Figures behind each choice: kernels/NOTES.md, Hopper.
inline constexpr Tiling kTilings[] = {
    {"sm90/coop128x256c2", "two warpgroups share 128x256, pairs of blocks share B by multicast",
     128, 256, 2, 1, 2, false, true, 4, 2, true, false, true, true, true, 1024, 1800},
    {"sm90/coop128x256", "two warpgroups share 128x256: one wave of a middle-sized product", 128,
     256, 1, 1, 2, false, false, 4, 2, true, false, false, true, true, 1032, 1500},
    {"sm90/coop128x112c2", "128x112 in pairs: tiles that fill a wave where D is small and wide",
     128, 112, 2, 1, 2, false, false, 7, 1, false, false, false, true, false, 490, 1000},
    {"sm90/coop256x192c2", "two warpgroups share 256x192 in pairs: the fewest bytes a flop", 256,
     192, 2, 1, 2, false, true, 3, 3, false, true, false, true, false, 1513, 3000},
    {"sm90/pp128x192c2", "warpgroups take 128x192 in turns, one stores while the other multiplies",
     128, 192, 2, 1, 2, true, false, 5, 1, false, false, false, true, true, 768, 300},
    {"sm90/one64x128", "one warpgroup, 64x128: one wave of a small product", 64, 128, 1, 1, 1,
     false, false, 8, 1, false, false, true, true, true, 384, 900},
    {"sm90/one64x64", "one warpgroup, 64x64, twelve stages: few rows, bound by memory", 64, 64, 1,
     1, 1, false, false, 12, 1, false, false, false, true, true, 256, 500},
    {"sm90/one64x32", "one warpgroup, 64x32: the smallest products", 64, 32, 1, 1, 1, false, false,
     16, 1, false, false, false, true, false, 271, 400},
    {"sm90/one64x128c2", "one warpgroup, 64x128 in pairs that share B: 65 to 128 rows", 64, 128, 2,
     1, 1, false, false, 9, 1, false, false, false, true, true, 350, 1800},
    {"sm90/coop128x128c2", "two warpgroups share 128x128 in pairs: one wave of few rows", 128, 128,
     2, 1, 2, false, true, 6, 2, true, false, false, true, true, 600, 1800},
};
// Whether a batch of equal problems is one launch. Pairs share operands by multicast, which
// has no form here for maps of a batch; their problems are large enough for launches of their own.
constexpr bool TakesBatches(const Tiling& tiling) {
  return tiling.cluster_m * tiling.cluster_n == 1;
}

// The one that serves lines of any pitch.
inline constexpr int kOne64x64 = 6;
static_assert(kTilings[kOne64x64].tile_m == 64 && kTilings[kOne64x64].tile_n == 64);

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::sm90
