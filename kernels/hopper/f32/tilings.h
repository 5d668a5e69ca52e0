// The tilings of the f32 product, as values.
//
// In the kernel's frame rows come as f32 and are split in registers: D's columns, lines of B.
// Columns come as parts that a pass ahead has split (split.h): D's rows, lines of A. So B, which is
// nearly all that products of few rows read, is read once and as it is.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::hopper::f32 {

struct Tiling {
  int row_groups = 1;        // consumers side by side along rows, of 64 rows each
  int column_groups = 1;     // and along columns
  int group_columns = 0;     // of a consumer, a multiple of 8
  bool takes_turns = false;  // two consumers multiply one after the other: one adds meanwhile
  int max_stages = 0;
  // For PredictedUs(): cycles of a multiprocessor for 32 of K.
  double k_block_cycles = 0;

  constexpr int rows() const { return 64 * row_groups; }
  constexpr int columns() const { return column_groups * group_columns; }
};

// A tiling of one consumer, which has `group_columns` columns.
constexpr Tiling One(int group_columns, int max_stages, double k_block_cycles) {
  Tiling tiling;
  tiling.group_columns = group_columns;
  tiling.max_stages = max_stages;
  tiling.k_block_cycles = k_block_cycles;
  return tiling;
}

// A tiling of two consumers, each with half of a tile's rows.
constexpr Tiling TwoInTurns(int group_columns, int max_stages, double k_block_cycles) {
  Tiling tiling = One(group_columns, max_stages, k_block_cycles);
  tiling.row_groups = 2;
  tiling.takes_turns = true;
  return tiling;
}

// A tiling of two consumers, each with half of a tile's columns.
constexpr Tiling TwoAtOnce(int group_columns, int max_stages, double k_block_cycles) {
  Tiling tiling = One(group_columns, max_stages, k_block_cycles);
  tiling.column_groups = 2;
  return tiling;
}

// README.md says which tiling is fastest for which shape. A consumer with more than 128 columns
// spills registers.
inline constexpr Tiling kTilings[] = {
    TwoInTurns(128, 2, 2050), TwoInTurns(64, 4, 1240), TwoAtOnce(64, 3, 1290), One(64, 6, 780),
    One(32, 7, 510),          One(16, 9, 480),         One(8, 11, 470),
};

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::hopper::f32
