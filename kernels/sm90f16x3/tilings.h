// The tilings of the f32 product in three f16 products, as values. The kernel's rows are D's
// columns, lines of B; its columns are D's rows, lines of A.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::sm90f16x3 {

struct Tiling {
  int row_groups = 1;     // consumers side by side along rows, of 64 rows each
  int group_columns = 0;  // of a consumer, a multiple of 8
  int max_stages = 0;
  double stage_cycles = 0;  // for PredictedUs(): of a multiprocessor for 64 of K
  bool rows_in_registers = false;
  bool passes_turn_late = false;

  constexpr int rows() const { return 64 * row_groups; }
  constexpr int columns() const { return group_columns; }
  // Two consumers multiply one after the other: one adds meanwhile.
  constexpr bool takes_turns() const { return row_groups == 2; }
};

// README.md says which tiling serves what.
inline constexpr Tiling kTilings[] = {
    {2, 128, 3, 1760, false, false}, {2, 128, 3, 1760, false, true}, {2, 128, 3, 1760, true, false},
    {2, 128, 3, 1760, true, true},   {2, 64, 4, 1060, true, true},   {1, 64, 6, 660, false, false},
    {1, 16, 9, 460, false, false},   {2, 192, 2, 2500, false, true},
};

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::sm90f16x3
