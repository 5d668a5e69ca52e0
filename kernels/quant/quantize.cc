#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/quant/block_scale.h"
#include "kernels/quant/elements.h"
#include "kernels/quant/packed_codes.h"

namespace gemmd {
namespace {

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

ValueRange RangeOfBlock(const RealView& real, const Block& block) {
  ValueRange range;
  ForEachElement(real, block,
                 [&](std::int64_t line, std::int64_t k) { range.Include(real.at(line, k)); });
  return range;
}

// The values of a run of lines.
struct Contents {
  ValueRange range;
  // An element that is not finite, if there is one: the first in memory.
  bool is_finite = true;
  std::int64_t line = 0;
  std::int64_t k = 0;
};

Contents ContentsOf(const RealView& real, const Run& lines) {
  Contents contents;
  ForEachElement(real, {lines, {0, real.k}}, [&](std::int64_t line, std::int64_t k) {
    const double value = real.at(line, k);
    if (!std::isfinite(value) && std::exchange(contents.is_finite, false)) {
      contents.line = line;
      contents.k = k;
    }
    contents.range.Include(value);
  });
  return contents;
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

namespace {

// Cuts the lines into runs for threads of their own. No two runs share a block, but where one is
// the whole matrix, nor a byte of codes: eight lines of codes side by side are whole bytes.
std::vector<Run> RunsOf(const QuantFormat& format, const RealView& real, int threads,
                        const QuantizedPlanes& planes) {
  constexpr std::int64_t kCodesOfBytes = 8;
  constexpr std::int64_t kElementsOfThread = 1 << 16;
  const bool shares_bytes =
      planes.k_stride > planes.line_stride && planes.k_stride % kCodesOfBytes != 0;
  const bool shares_blocks =
      format.scaling.block_lines == kWhole && format.scaling.block_k != kWhole;
  const std::int64_t step = format.scaling.block_lines == kWhole
                                ? kCodesOfBytes
                                : std::max<std::int64_t>(format.scaling.block_lines, kCodesOfBytes);
  const std::int64_t steps = (real.lines + step - 1) / step;
  const std::int64_t most = std::min(steps, real.lines * real.k / kElementsOfThread);
  const std::int64_t count =
      shares_bytes || shares_blocks ? 1 : std::clamp<std::int64_t>(most, 1, std::max(threads, 1));
  std::vector<Run> runs;
  runs.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    runs.push_back(
        {steps * i / count * step, std::min(steps * (i + 1) / count * step, real.lines)});
  }
  return runs;
}

// Calls visit(index) for each index below `count`, each on a thread of its own, or on this one
// where the system gives no more.
template <typename Visit>
void ForEachAtOnce(std::size_t count, const Visit& visit) {
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < count; ++i) {
    try {
      others.emplace_back(visit, i);
    } catch (const std::system_error&) {
      visit(i);
    }
  }
  visit(0);
  for (std::thread& each : others) each.join();
}

// Of a run of lines, once the range of the whole matrix and its scale are known.
void QuantizeRun(const QuantFormat& format, const RealView& real, const QuantizeOptions& options,
                 const QuantizedPlanes& planes, const ValueRange& whole, float tensor_scale,
                 const Run& lines) {
  const int element_bits = SizeBits(format.element);
  const int scale_bits = SizeBits(format.scaling.type);
  const bool has_one_block =
      format.scaling.block_lines == kWhole && format.scaling.block_k == kWhole;
  ForEachBlock(format, real, lines, [&](const Block& block) {
    const ValueRange range = has_one_block ? whole : RangeOfBlock(real, block);
    const BlockScale chosen = ChooseScale(format, range, tensor_scale, options.scale_rule);
    if (!has_one_block || block.lines.first == 0) {
      const std::int64_t scale_index =
          format.scaling.index(real.lines, real.k, block.lines.first, block.k.first);
      StoreCode(planes.scales, scale_bits, scale_index, chosen.code);
      if (format.scaling.has_zero_points) {
        static_cast<std::uint8_t*>(planes.zero_points)[scale_index] =
            static_cast<std::uint8_t>(chosen.zero_point);
      }
    }
    // Exact, as QuantizedView::value() is. The quotients below are rounded to binary64, which moves
    // none over a boundary between codes: value, scale and boundary have 24, 28 and 9 bits at most,
    // so a quotient that is not on a boundary differs from it by 2^-38 of it or more.
    const double scale = DecodeElement(format.scaling.type, chosen.code) * tensor_scale;
    ForEachElement(real, block, [&](std::int64_t line, std::int64_t k) {
      const double quotient = scale == 0 ? 0 : real.at(line, k) / scale;
      StoreCode(planes.codes, element_bits, line * planes.line_stride + k * planes.k_stride,
                EncodeElement(format.element, quotient, chosen.zero_point, options.rounding,
                              static_cast<std::uint64_t>(line * real.k + k)));
    });
  });
}

}  // namespace

absl::StatusOr<float> QuantizeInto(const QuantFormat& format, const RealView& real,
                                   const QuantizeOptions& options, const QuantizedPlanes& planes) {
  const std::vector<Run> runs = RunsOf(format, real, options.threads, planes);
  std::vector<Contents> contents(runs.size());
  ForEachAtOnce(runs.size(), [&](std::size_t i) { contents[i] = ContentsOf(real, runs[i]); });
  ValueRange whole;
  for (const Contents& each : contents) {
    if (!each.is_finite) {
      return absl::InvalidArgumentError(absl::StrCat("element (", each.line, ", ", each.k, ") is ",
                                                     real.at(each.line, each.k),
                                                     ": quantized matrices are finite"));
    }
    whole.Include(each.range.lowest);
    whole.Include(each.range.highest);
  }
  const float tensor_scale = TensorScale(format, whole);
  ForEachAtOnce(runs.size(), [&](std::size_t i) {
    QuantizeRun(format, real, options, planes, whole, tensor_scale, runs[i]);
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
