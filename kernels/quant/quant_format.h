// A quantized format as a value: what its elements are, and what scales them. README.md beside this
// header is the specification of each.
//
// An operand is looked at as lines of K elements: rows of op(A), columns of op(B). Element (line,
// k) is worth
//
//     (code - zero point of its block) * scale of its block * scale of the tensor,
//
// where the block of (line, k) is (line / block_lines, k / block_k). Blocks at the ends of lines
// and K are smaller: they hold the elements that there are.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/quant/scale_layout.h"
#include "kernels/types.h"

namespace gemmd {

// A block that takes the whole of a dimension.
inline constexpr std::int64_t kWhole = 0;

struct QuantFormat {
  DataType element = DataType::kInt8;
  DataType scale = DataType::kF32;  // F32, F16, BF16, E8M0 or FP8_E4M3
  std::int64_t block_lines = kWhole;
  std::int64_t block_k = kWhole;
  bool has_zero_points = false;   // one byte a block, of the range of the elements; integers only
  bool has_tensor_scale = false;  // one more f32
  ScaleLayout layout = ScaleLayout::kAlongK;  // of scales and of zero points

  // Blocks along a dimension of that size.
  std::int64_t line_blocks(std::int64_t lines) const {
    return block_lines == kWhole ? 1 : (lines + block_lines - 1) / block_lines;
  }
  std::int64_t k_blocks(std::int64_t k) const {
    return block_k == kWhole ? 1 : (k + block_k - 1) / block_k;
  }
  // Places in the planes of scales and of zero points.
  std::int64_t scale_count(std::int64_t lines, std::int64_t k) const {
    return ScaleCount(layout, line_blocks(lines), k_blocks(k));
  }
  // REQUIRES: line and k are an element's.
  std::int64_t scale_index(std::int64_t lines, std::int64_t k_size, std::int64_t line,
                           std::int64_t k) const {
    return ScaleIndex(layout, line_blocks(lines), k_blocks(k_size),
                      block_lines == kWhole ? 0 : line / block_lines,
                      block_k == kWhole ? 0 : k / block_k);
  }
};

// Bits an element takes with its share of scales and zero points, in blocks that are whole. Scales
// of whole lines and of the tensor count nothing.
double BitsPerElement(const QuantFormat& format);

struct NamedFormat {
  std::string name;
  QuantFormat format;
};

// Every format of README.md, with scales along K.
absl::Span<const NamedFormat> QuantFormats();

// The format of that name, or null.
const QuantFormat* FindQuantFormat(absl::string_view name);

}  // namespace gemmd
