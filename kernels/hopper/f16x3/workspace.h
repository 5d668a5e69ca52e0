// The workspace of the f32 product in three f16 products. Host code, pure.
#pragma once

#include <cstdint>

#include "kernels/hopper/f16x3/tilings.h"
#include "kernels/kernel.h"

namespace gemmd::hopper::f16x3 {

// Where things lie in it: parts of whole tiles of lines and whole stages of 64 of K, two numbers
// of 2 bytes an element; then the lines' exponents.
struct Workspace {
  std::int64_t rows = 0;     // lines, of whole tiles
  std::int64_t columns = 0;  // the same
  std::uint64_t row_part_bytes = 0;
  std::uint64_t column_part_bytes = 0;

  std::uint64_t column_parts() const { return row_part_bytes; }
  std::uint64_t row_exponents() const { return row_part_bytes + column_part_bytes; }
  std::uint64_t column_exponents() const {
    return row_exponents() + static_cast<std::uint64_t>(rows) * 4;
  }
  std::uint64_t bytes() const {
    return column_exponents() + static_cast<std::uint64_t>(columns) * 4;
  }
};

inline Workspace WorkspaceOf(const Tiling& tiling, const Problem& problem) {
  const auto whole = [](std::int64_t lines, int tile) { return (lines + tile - 1) / tile * tile; };
  const std::uint64_t line_bytes = static_cast<std::uint64_t>((problem.k + 63) / 64) * 256;
  Workspace workspace;
  workspace.rows = whole(problem.n, tiling.rows());
  workspace.columns = whole(problem.m, tiling.columns());
  workspace.row_part_bytes = static_cast<std::uint64_t>(workspace.rows) * line_bytes;
  workspace.column_part_bytes = static_cast<std::uint64_t>(workspace.columns) * line_bytes;
  return workspace;
}

}  // namespace gemmd::hopper::f16x3
