// The part of DecodeRun() and of AddCodeDots() that each form has.
#pragma once

#include <cstdint>

#include "kernels/cpu/code_dots.h"
#include "kernels/cpu/code_run.h"

namespace gemmd {

// 16 * `count` codes from the first bit of `data` on.
struct Codes16 {
  const std::uint8_t* data = nullptr;
  std::int64_t count = 0;
};

struct CodeForm {
  // As DecodeRun(). Returns whether it knows the type.
  bool (*decode)(DataType type, const Codes16& codes, const Blocks& blocks, float* out);
  // As LargestFinite(), of 16 * `count` values.
  float (*largest_finite)(const float* values, std::int64_t count);
  // As AddCodeDots().
  bool (*add_dots)(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains);
  // As AddCodeLines().
  bool (*add_lines)(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                    std::int64_t steps, float* sums, std::int64_t pitch);
};

// Null where the build has none, because it is for another processor.
const CodeForm* Avx2CodeForm();
const CodeForm* Avx512CodeForm();

namespace x86 {
bool AddDots256(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains);
bool AddDots512(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains);
bool AddLines256(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                 std::int64_t steps, float* sums, std::int64_t pitch);
bool AddLines512(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                 std::int64_t steps, float* sums, std::int64_t pitch);
}  // namespace x86

// The values of a type of 4 bits, 16 of them.
const float* ValuesOf4Bits(DataType type);

}  // namespace gemmd
