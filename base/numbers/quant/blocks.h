// The blocks of a real matrix, and the elements of a block.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/numbers/quant/block_scale.h"
#include "base/numbers/quant/quantize.h"

namespace gemmd {

struct Run {
  std::int64_t first;
  std::int64_t last;  // one past it
};

struct Block {
  Run lines;
  Run k;
};

// Calls visit(block) for each block of the format, or its part in these lines: neighbours in memory
// follow each other.
template <typename Visit>
void ForEachBlock(const QuantFormat& format, const RealView& real, const Run& lines,
                  const Visit& visit) {
  const std::int64_t line_step =
      format.scaling.block_lines == kWhole ? real.lines : format.scaling.block_lines;
  const std::int64_t k_step = format.scaling.block_k == kWhole ? real.k : format.scaling.block_k;
  const auto visit_at = [&](std::int64_t line, std::int64_t k) {
    visit(Block{{line, std::min(line + line_step, lines.last)}, {k, std::min(k + k_step, real.k)}});
  };
  if (real.k_stride <= real.line_stride) {
    for (std::int64_t line = lines.first; line < lines.last; line += line_step) {
      for (std::int64_t k = 0; k < real.k; k += k_step) visit_at(line, k);
    }
  } else {
    for (std::int64_t k = 0; k < real.k; k += k_step) {
      for (std::int64_t line = lines.first; line < lines.last; line += line_step) visit_at(line, k);
    }
  }
}

// Neighbours in memory follow each other here too.
template <typename Visit>
void ForEachElement(const RealView& real, const Block& block, const Visit& visit) {
  if (real.k_stride <= real.line_stride) {
    for (std::int64_t line = block.lines.first; line < block.lines.last; ++line) {
      for (std::int64_t k = block.k.first; k < block.k.last; ++k) visit(line, k);
    }
  } else {
    for (std::int64_t k = block.k.first; k < block.k.last; ++k) {
      for (std::int64_t line = block.lines.first; line < block.lines.last; ++line) visit(line, k);
    }
  }
}

// The range that the block's scale is chosen for. It holds 0, unless there is an offset.
inline ValueRange RangeOfBlock(const QuantFormat& format, const RealView& real,
                               const Block& block) {
  ValueRange range;
  if (format.scaling.has_offsets) {
    range.lowest = range.highest = real.at(block.lines.first, block.k.first);
  }
  ForEachElement(real, block,
                 [&](std::int64_t line, std::int64_t k) { range.Include(real.at(line, k)); });
  return range;
}

}  // namespace gemmd
