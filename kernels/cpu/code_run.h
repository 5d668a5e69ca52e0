// Codes that lie side by side, as f32.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/cpu/row_gemm.h"

namespace gemmd {

// Elements `first` to `first` + `count` of a plane.
struct CodeRun {
  DataType type{};  // f32, or any type of at most 16 bits
  const void* plane = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// A number for each `length` elements of a run, the last of which may have fewer.
struct Blocks {
  std::int64_t length = 1;  // 1, or a multiple of 16
  const float* factors = nullptr;
  const float* zero_points = nullptr;  // or null: 0
  const float* offsets = nullptr;      // or null: 0; null where there are zero points
};

// out[i] = (value of element i - zero point) * factor + offset, where the difference is exact and
// one of it and the offset is absent, so that it is rounded once. The bits do not depend on the
// form. REQUIRES: the processor has the form.
void DecodeRun(const CodeRun& run, const Blocks& blocks, float* out,
               RowGemmForm form = BestRowGemmForm());

// Returns the largest magnitude that is finite, or 0.
float LargestFinite(const float* values, std::int64_t count, RowGemmForm form = BestRowGemmForm());

}  // namespace gemmd
