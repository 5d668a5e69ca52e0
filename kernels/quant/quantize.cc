#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/quant/block_scale.h"
#include "kernels/quant/elements.h"
#include "kernels/quant/packed_codes.h"

namespace gemmd {
namespace {

struct Block {
  std::int64_t first_line;
  std::int64_t last_line;  // one past it, as for K
  std::int64_t first_k;
  std::int64_t last_k;
};

// Calls visit(block) for each block of the format: neighbours in memory follow each other.
template <typename Visit>
void ForEachBlock(const QuantFormat& format, const RealView& real, const Visit& visit) {
  const std::int64_t line_step =
      format.scaling.block_lines == kWhole ? real.lines : format.scaling.block_lines;
  const std::int64_t k_step = format.scaling.block_k == kWhole ? real.k : format.scaling.block_k;
  const auto visit_at = [&](std::int64_t line, std::int64_t k) {
    visit(Block{line, std::min(line + line_step, real.lines), k, std::min(k + k_step, real.k)});
  };
  if (real.k_stride <= real.line_stride) {
    for (std::int64_t line = 0; line < real.lines; line += line_step) {
      for (std::int64_t k = 0; k < real.k; k += k_step) visit_at(line, k);
    }
  } else {
    for (std::int64_t k = 0; k < real.k; k += k_step) {
      for (std::int64_t line = 0; line < real.lines; line += line_step) visit_at(line, k);
    }
  }
}

template <typename Visit>
void ForEachElement(const Block& block, const Visit& visit) {
  for (std::int64_t line = block.first_line; line < block.last_line; ++line) {
    for (std::int64_t k = block.first_k; k < block.last_k; ++k) visit(line, k);
  }
}

absl::StatusOr<ValueRange> RangeOfMatrix(const RealView& real) {
  ValueRange range;
  const bool is_k_inner = real.k_stride <= real.line_stride;
  for (std::int64_t i = 0; i < (is_k_inner ? real.lines : real.k); ++i) {
    for (std::int64_t j = 0; j < (is_k_inner ? real.k : real.lines); ++j) {
      const std::int64_t line = is_k_inner ? i : j;
      const std::int64_t k = is_k_inner ? j : i;
      const double value = real.at(line, k);
      if (!std::isfinite(value)) {
        return absl::InvalidArgumentError(absl::StrCat("element (", line, ", ", k, ") is ", value,
                                                       ": quantized matrices are finite"));
      }
      range.Include(value);
    }
  }
  return range;
}

// Returns the index of the block of (line, k) in the planes of scales and zero points.
std::int64_t BlockIndex(const QuantizedView& view, std::int64_t line, std::int64_t k) {
  const std::int64_t lines = view.scale_lines == 0 ? view.lines : view.scale_lines;
  return view.format.scaling.index(lines, view.k, line, k);
}

}  // namespace

std::uint32_t QuantizedView::code(std::int64_t line, std::int64_t k_index) const {
  return LoadCode(codes, SizeBits(format.element), line * line_stride + k_index * k_stride);
}

double QuantizedView::block_scale(std::int64_t line, std::int64_t k_index) const {
  if (!format.scaling.has_scales) return 1;
  const std::int64_t index = BlockIndex(*this, line, k_index);
  return DecodeElement(format.scaling.type, LoadCode(scales, SizeBits(format.scaling.type), index));
}

double QuantizedView::scale(std::int64_t line, std::int64_t k_index) const {
  return block_scale(line, k_index) * tensor_scale;
}

int QuantizedView::zero_point(std::int64_t line, std::int64_t k_index) const {
  if (!format.scaling.has_zero_points) return 0;
  const std::int64_t index = BlockIndex(*this, line, k_index);
  const std::uint8_t byte = static_cast<const std::uint8_t*>(zero_points)[index];
  return RangeOf(format.element).lowest < 0 ? static_cast<std::int8_t>(byte) : byte;
}

double QuantizedView::value(std::int64_t line, std::int64_t k_index) const {
  const double stored = DecodeElement(format.element, code(line, k_index));
  return (stored - zero_point(line, k_index)) * scale(line, k_index);
}

QuantizedView QuantizedMatrix::view() const {
  QuantizedView view;
  view.format = format;
  view.lines = lines;
  view.k = k;
  view.codes = codes.data();
  view.line_stride = k;
  view.scales = scales.data();
  view.zero_points = format.scaling.has_zero_points ? zero_points.data() : nullptr;
  view.tensor_scale = tensor_scale;
  return view;
}

double RealView::at(std::int64_t line, std::int64_t k_index) const {
  const std::int64_t index = line * line_stride + k_index * k_stride;
  if (type == DataType::kF32) return static_cast<const float*>(data)[index];
  return DecodeElement(type, static_cast<const std::uint16_t*>(data)[index]);
}

absl::StatusOr<float> QuantizeInto(const QuantFormat& format, const RealView& real,
                                   const QuantizeOptions& options, const QuantizedPlanes& planes) {
  const absl::StatusOr<ValueRange> whole = RangeOfMatrix(real);
  if (!whole.ok()) return whole.status();

  const int element_bits = SizeBits(format.element);
  const int scale_bits = SizeBits(format.scaling.type);
  const float tensor_scale = TensorScale(format, *whole);
  ForEachBlock(format, real, [&](const Block& block) {
    ValueRange range;
    ForEachElement(block,
                   [&](std::int64_t line, std::int64_t k) { range.Include(real.at(line, k)); });
    const BlockScale chosen = ChooseScale(format, range, tensor_scale, options.scale_rule);
    const std::int64_t scale_index =
        format.scaling.index(real.lines, real.k, block.first_line, block.first_k);
    StoreCode(planes.scales, scale_bits, scale_index, chosen.code);
    if (format.scaling.has_zero_points) {
      static_cast<std::uint8_t*>(planes.zero_points)[scale_index] =
          static_cast<std::uint8_t>(chosen.zero_point);
    }
    // Exact, as QuantizedView::value() is. The quotients below are rounded to binary64, which moves
    // none over a boundary between codes: value, scale and boundary have 24, 28 and 9 bits at most,
    // so a quotient that is not on a boundary differs from it by 2^-38 of it or more.
    const double scale = DecodeElement(format.scaling.type, chosen.code) * tensor_scale;
    ForEachElement(block, [&](std::int64_t line, std::int64_t k) {
      const double quotient = scale == 0 ? 0 : real.at(line, k) / scale;
      StoreCode(planes.codes, element_bits, line * planes.line_stride + k * planes.k_stride,
                EncodeElement(format.element, quotient, chosen.zero_point, options.rounding,
                              static_cast<std::uint64_t>(line * real.k + k)));
    });
  });
  return tensor_scale;
}

absl::StatusOr<QuantizedMatrix> Quantize(const QuantFormat& format, const RealView& real,
                                         const QuantizeOptions& options) {
  const std::int64_t scale_count = format.scaling.count(real.lines, real.k);
  QuantizedMatrix result;
  result.format = format;
  result.lines = real.lines;
  result.k = real.k;
  result.codes.resize(
      static_cast<std::size_t>(PackedBytes(SizeBits(format.element), real.lines * real.k)));
  result.scales.resize(
      static_cast<std::size_t>(PackedBytes(SizeBits(format.scaling.type), scale_count)));
  if (format.scaling.has_zero_points) {
    result.zero_points.resize(static_cast<std::size_t>(scale_count));
  }
  const absl::StatusOr<float> tensor_scale =
      QuantizeInto(format, real, options,
                   {result.codes.data(), real.k, 1, result.scales.data(),
                    result.zero_points.empty() ? nullptr : result.zero_points.data()});
  if (!tensor_scale.ok()) return tensor_scale.status();
  result.tensor_scale = *tensor_scale;
  return result;
}

std::vector<double> Dequantize(const QuantizedView& quantized) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(quantized.lines * quantized.k));
  for (std::int64_t line = 0; line < quantized.lines; ++line) {
    for (std::int64_t k = 0; k < quantized.k; ++k) values.push_back(quantized.value(line, k));
  }
  return values;
}

}  // namespace gemmd
