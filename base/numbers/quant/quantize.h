// Real matrices to quantized ones and back. README.md beside this header specifies each format;
// this code is its definition in C++, written to be read: one element at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/numbers/quant/quant_format.h"
#include "base/numbers/quant/rounding.h"

namespace gemmd {

// A quantized operand where it lies: planes of codes, scales, zero points and offsets, each code
// packed as packed_codes.h says. Or one of F32, F16 or BF16 elements without scales, which are
// their own values.
struct QuantizedView {
  QuantFormat format;
  std::int64_t lines = 0;
  std::int64_t k = 0;
  const void* codes = nullptr;
  std::int64_t line_stride = 0;  // codes from (line, k) to (line + 1, k)
  std::int64_t k_stride = 1;
  const void* scales = nullptr;       // format.scaling.count() of them
  const void* zero_points = nullptr;  // as many; null unless the format has them
  const void* offsets = nullptr;      // as many, of the scales' type; null unless it has them
  float tensor_scale = 1;             // 1 unless the format has one
  // For a part of an operand: the lines that the planes of scales, zero points and offsets, whose
  // addresses are those of the part's first line, were made for. 0: `lines`.
  std::int64_t scale_lines = 0;

  std::uint32_t code(std::int64_t line, std::int64_t k_index) const;
  // Describe the block of (line, k): its scale, that times the scale of the tensor, its zero point
  // and its offset. Exact.
  double block_scale(std::int64_t line, std::int64_t k_index) const;
  double scale(std::int64_t line, std::int64_t k_index) const;
  int zero_point(std::int64_t line, std::int64_t k_index) const;
  double offset(std::int64_t line, std::int64_t k_index) const;
  // Returns the value of element (line, k). Without an offset it is exact, because code, scale and
  // tensor scale have at most 9, 24 and 24 bits, and not both scales have more than 4; adding an
  // offset rounds once. A NaN scale or code makes it NaN.
  double value(std::int64_t line, std::int64_t k_index) const;
};

// A quantized operand that owns its planes. Codes are packed without gaps, K running fastest.
struct QuantizedMatrix {
  QuantFormat format;
  std::int64_t lines = 0;
  std::int64_t k = 0;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint8_t> scales;
  std::vector<std::uint8_t> zero_points;
  std::vector<std::uint8_t> offsets;
  float tensor_scale = 1;

  QuantizedView view() const;
};

// The rule by which a format's scales are chosen; README.md has all. Each format has the first,
// E8M0 scales the second, and signed integers and iq4_nl, without zero points and offsets, the
// third: where a format lacks a rule, it is as the first.
enum class ScaleRule : std::uint8_t { kFloor, kRoundUp, kFullRange };

// Returns whether the format has the rule.
bool HasRule(const QuantFormat& format, ScaleRule rule);

struct QuantizeOptions {
  ScaleRule scale_rule = ScaleRule::kFloor;
  Rounding rounding;  // of elements, by their index line * K + k; scales round to nearest always
  int threads = 1;    // at most; they end within the call, and do not change the result
};

// A real matrix where it lies.
struct RealView {
  const void* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t k = 0;
  std::int64_t line_stride = 0;
  std::int64_t k_stride = 1;
  DataType type = DataType::kF32;  // or kF16, kBf16
  bool lines_are_columns = false;  // of its matrix; errors name elements by (row, column)

  double at(std::int64_t line, std::int64_t k_index) const;
};

// INVALID_ARGUMENT: an element is NaN or infinite, or beyond what its block has codes for, as
// README.md says of each format. The error names the first one, row by row, its value and the
// limit.
absl::StatusOr<QuantizedMatrix> Quantize(const QuantFormat& format, const RealView& real,
                                         const QuantizeOptions& options = {});

// Memory for the planes of a quantized operand, laid out as QuantizedView has it, all zero.
struct QuantizedPlanes {
  void* codes = nullptr;
  std::int64_t line_stride = 0;
  std::int64_t k_stride = 1;
  void* scales = nullptr;
  void* zero_points = nullptr;  // null unless the format has them
  void* offsets = nullptr;      // likewise
};

// Quantizes into the caller's planes, whose contents mean nothing after an error, and returns the
// scale of the tensor: 1 for formats without one. The errors are those of Quantize().
absl::StatusOr<float> QuantizeInto(const QuantFormat& format, const RealView& real,
                                   const QuantizeOptions& options, const QuantizedPlanes& planes);

// Every element's value, K running fastest.
std::vector<double> Dequantize(const QuantizedView& quantized);

}  // namespace gemmd
