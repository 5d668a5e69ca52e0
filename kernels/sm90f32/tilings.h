// The tilings of the f32 product, as values.
//
// In the kernel's frame rows come as f32 and are split in registers: D's columns, lines of B.
// Columns come as parts that a pass ahead has split (split.h): D's rows, lines of A. So B, of
// which products of few rows are made, is read once and as it is.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::sm90f32 {

struct Tiling {
  int row_groups;     // consumers side by side along rows, of 64 rows each
  int column_groups;  // and along columns
  int group_columns;  // of a consumer, a multiple of 8
  bool takes_turns;   // two consumers multiply one after the other: one adds meanwhile
  int max_stages;
  // For PredictedUs(): cycles of a multiprocessor for 32 of K.
  double k_block_cycles;

  constexpr int rows() const { return 64 * row_groups; }
  constexpr int columns() const { return column_groups * group_columns; }
};

// README.md says which tiling is fastest for which shape. A consumer with more than 128 columns
// spills registers.
inline constexpr Tiling kTilings[] = {
    {2, 1, 128, true, 2, 2050}, {2, 1, 64, true, 4, 1240}, {1, 2, 64, false, 3, 1290},
    {1, 1, 64, false, 6, 780},  {1, 1, 32, false, 7, 510}, {1, 1, 16, false, 9, 480},
    {1, 1, 8, false, 11, 470},
};

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::sm90f32
