// Chains of rows of A by lines of codes, which are decoded in registers and stored nowhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/cpu/code_run.h"
#include "kernels/cpu/row_gemm.h"

namespace gemmd {

// Lines of codes along K, each from the first bit of a byte on.
struct CodeLines {
  DataType type{};
  const std::uint8_t* codes[kDotColumns] = {};
  std::ptrdiff_t ahead = 0;     // bytes from a code to the one that is asked of memory meanwhile
  Blocks numbers[kDotColumns];  // all of one length, a multiple of 16
};

// Goes on with chains as RowTile::add_dots does, with its bits: 16 * `steps` elements of K from
// where the lines begin. Returns false, and does nothing, where the form has no registers for the
// type or for so many rows. REQUIRES: the processor has the form.
bool AddCodeDots(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains,
                 RowGemmForm form);

// Lines of neighbouring columns, 16 elements of K apart, as values without a scale.
struct CodeRows {
  DataType type{};
  const std::uint8_t* codes = nullptr;  // from the first bit of a byte on
  std::ptrdiff_t pitch = 0;             // bytes
};

// Goes on with one chain as RowTile::add_lines does, with its bits: `steps` lines of `columns`
// columns. Returns false, and does nothing, where the form has no registers for the type.
// REQUIRES: the processor has the form; steps <= kLineSteps.
bool AddCodeLines(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                  std::int64_t steps, float* sums, std::int64_t pitch, RowGemmForm form);

}  // namespace gemmd
