// The tilings of the f32 product in three f16 products, as values. The kernel's rows are D's
// columns, lines of B; its columns are D's rows, lines of A.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::hopper::f16x3 {

struct Tiling {
  int row_groups = 1;    // consumers side by side along rows, of 64 rows each
  int column_count = 0;  // a multiple of 8
  int max_stages = 0;
  double stage_cycles = 0;  // for PredictedUs(): of a multiprocessor for 64 of K

  constexpr int rows() const { return 64 * row_groups; }
  constexpr int columns() const { return column_count; }
  // Two consumers multiply one after the other: one adds meanwhile.
  constexpr bool takes_turns() const { return row_groups == 2; }
};

// README.md says which tiling serves what.
inline constexpr Tiling kTilings[] = {
    {2, 128, 3, 2060}, {2, 64, 4, 1210}, {1, 64, 6, 740}, {1, 16, 9, 480}};

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::hopper::f16x3
