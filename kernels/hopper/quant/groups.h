// Groups of the rows of a product, each with a packed B of its own in one stack.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/tilings.h"

namespace gemmd::hopper::quant {

struct PackedGroup {
  std::int64_t begin = 0;  // rows
  std::int64_t end = 0;
  std::int64_t product = 0;  // of the stack, and of the biases
};

// Groups for one launch's tiling. The stack's planes have as many matrices each, one behind another
// at multiples of a packed one's bytes; all share a scale of the tensor.
struct PackedGroups {
  absl::Span<const PackedGroup> groups;
  std::int64_t matrices = 1;   // of the stack, from a product's to the next one's
  std::int64_t bias_step = 0;  // bytes
};

// The rows of the tilings that take groups. Those for few rows take groups of no more, those for
// many longer ones too, by several tiles.
inline constexpr int kGroupRows[] = {1, 8, 16, 64, 128};
inline constexpr int kGroupTilings = sizeof(kGroupRows) / sizeof(kGroupRows[0]);
inline constexpr int kFewGroupTilings = 3;
// Sums of A's rows, for offsets, are of rows from zero on: those groups go one by one.
constexpr int GroupTilingCount(CodeFormat format) {
  return HasOffsets(format) ? kFewGroupTilings : kGroupTilings;
}
// The first that has room for so many rows in one tile; the last, if none has.
constexpr int GroupTilingFor(std::int64_t rows) {
  int tiling = 0;
  while (tiling + 1 < kGroupTilings && kGroupRows[tiling] < rows) ++tiling;
  return tiling;
}

// The place among the format's tilings for few rows: that with most lines a block.
constexpr int FewTilingOfGroups(CodeFormat format, int rows) {
  int best = -1;
  for (int i = 0; i < FewTilingCount(format); ++i) {
    const FewTiling each = FewTilingOf(format, i);
    if (each.rows != rows) continue;
    if (best < 0 || each.strips > FewTilingOf(format, best).strips) best = i;
  }
  return best;
}
// The place among those for many rows: that with most lines a cluster.
constexpr int WideTilingOfGroups(CodeFormat format, int rows) {
  int best = -1;
  int most = 0;
  for (int i = 0; i < WideTilingCount(format); ++i) {
    const WideTiling each = WideTilingOf(format, i);
    const int lines = each.groups * each.line_blocks;
    if (each.rows != rows || lines <= most) continue;
    best = i;
    most = lines;
  }
  return best;
}

}  // namespace gemmd::hopper::quant
