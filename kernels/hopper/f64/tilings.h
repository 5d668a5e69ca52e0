// The tilings of the f64 product, as values.
//
// In the kernel's frame rows are lines of B, D's columns, because an instruction takes 16 of them;
// columns are lines of A, D's rows, of which it takes 8. So a product of one row of A wastes least.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::hopper::f64 {

struct Tiling {
  int row_warps = 4;  // warps that multiply, along rows,
  int column_warps = 1;
  int warp_rows = 16;  // each one's, a multiple of 16,
  int warp_columns = 0;
  int stage_k = 0;  // K of a stage, a multiple of 16
  int max_stages = 0;
  int step_k = 0;  // K of an instruction: 4, 8 or 16
  // For PredictedUs(): cycles of a multiprocessor for 16 of K of one tile.
  double k_block_cycles = 0;

  constexpr int rows() const { return row_warps * warp_rows; }
  constexpr int columns() const { return column_warps * warp_columns; }
  constexpr int warps() const { return row_warps * column_warps; }
};

// A multiprocessor does 128 multiply-adds a cycle, so that 16 of K of 128 x 128 take 2048 cycles.
constexpr Tiling Large() {  // 128 x 128
  Tiling tiling;
  tiling.row_warps = 2;
  tiling.column_warps = 4;
  tiling.warp_rows = 64;
  tiling.warp_columns = 32;
  tiling.stage_k = 32;
  tiling.max_stages = 3;
  tiling.step_k = 8;
  tiling.k_block_cycles = 2095;
  return tiling;
}

// 64 of A's lines by 32 * row_blocks of B's.
constexpr Tiling Middle(int row_blocks, double k_block_cycles) {
  Tiling tiling;
  tiling.column_warps = 2;
  tiling.warp_rows = 16 * row_blocks;
  tiling.warp_columns = 32;
  tiling.stage_k = 32;
  tiling.max_stages = 4;
  tiling.step_k = 8;
  tiling.k_block_cycles = k_block_cycles;
  return tiling;
}

// For so few lines of A that each warp has all of them.
constexpr Tiling Few(int columns, int stage_k, int max_stages, int step_k, double k_block_cycles) {
  Tiling tiling;
  tiling.warp_columns = columns;
  tiling.stage_k = stage_k;
  tiling.max_stages = max_stages;
  tiling.step_k = step_k;
  tiling.k_block_cycles = k_block_cycles;
  return tiling;
}

// Each was the quickest of seventeen tilings for some shape on an H200 (docs/lab/f32-f64.md).
inline constexpr Tiling kTilings[] = {
    Large(),
    Middle(2, 1085),
    Middle(1, 585),
    Few(32, 32, 6, 8, 330),
    Few(16, 64, 5, 16, 230),
    Few(8, 64, 5, 16, 200),
};

inline constexpr int kTilingCount = sizeof(kTilings) / sizeof(kTilings[0]);

}  // namespace gemmd::hopper::f64
