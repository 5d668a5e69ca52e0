#include "base/numbers/quant/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/numbers/quant/block_scale.h"
#include "base/numbers/quant/blocks.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"

namespace gemmd {
namespace {

// The values of a run of lines.
struct Contents {
  ValueRange range;
  bool is_finite = true;
};

Contents ContentsOf(const RealView& real, const Run& lines) {
  Contents contents;
  ForEachElement(real, {lines, {0, real.k}}, [&](std::int64_t line, std::int64_t k) {
    const double value = real.at(line, k);
    if (!std::isfinite(value)) contents.is_finite = false;
    contents.range.Include(value);
  });
  return contents;
}

// Returns the index of the block of (line, k) in the planes of scales, zero points and offsets.
std::int64_t BlockIndex(const QuantizedView& view, std::int64_t line, std::int64_t k) {
  const std::int64_t lines = view.scale_lines == 0 ? view.lines : view.scale_lines;
  return view.format.scaling.index(lines, view.k, line, k);
}

}  // namespace

bool HasRule(const QuantFormat& format, ScaleRule rule) {
  const Scaling& scaling = format.scaling;
  switch (rule) {
    case ScaleRule::kFloor:
      break;
    case ScaleRule::kRoundUp:
      return scaling.type == DataType::kE8M0;
    case ScaleRule::kFullRange:
      return -LowestElement(format.element) > LargestElement(format.element) &&
             !scaling.has_zero_points && !scaling.has_offsets;
  }
  return true;
}

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

double QuantizedView::offset(std::int64_t line, std::int64_t k_index) const {
  if (!format.scaling.has_offsets) return 0;
  const std::int64_t index = BlockIndex(*this, line, k_index);
  return DecodeElement(format.scaling.type,
                       LoadCode(offsets, SizeBits(format.scaling.type), index));
}

double QuantizedView::value(std::int64_t line, std::int64_t k_index) const {
  const double stored = DecodeElement(format.element, code(line, k_index));
  const double scaled = (stored - zero_point(line, k_index)) * scale(line, k_index);
  // Nothing is added where there are no offsets: a product of -0 stays.
  return format.scaling.has_offsets ? scaled + offset(line, k_index) : scaled;
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
  view.offsets = format.scaling.has_offsets ? offsets.data() : nullptr;
  view.tensor_scale = tensor_scale;
  return view;
}

double RealView::at(std::int64_t line, std::int64_t k_index) const {
  const std::int64_t index = line * line_stride + k_index * k_stride;
  if (type == DataType::kF32) return static_cast<const float*>(data)[index];
  return DecodeElement(type, static_cast<const std::uint16_t*>(data)[index]);
}

namespace {

// Cuts the lines into runs, one for each thread. Two runs never share a block, unless the block is
// the whole matrix. They never share a byte of codes either: a run begins at a multiple of eight
// lines, whose codes fill whole bytes.
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
  const std::int64_t steps = CeilOfRatio(real.lines, step);
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

// The choices for a whole matrix, once all its values were seen.
struct Chosen {
  const QuantFormat& format;
  ScaleRule rule;
  ValueRange whole;
  float tensor_scale;

  bool has_one_block() const {
    return format.scaling.block_lines == kWhole && format.scaling.block_k == kWhole;
  }
  ValueRange RangeOf(const RealView& real, const Block& block) const {
    return has_one_block() ? whole : RangeOfBlock(format, real, block);
  }
  BlockScale ScaleOf(const ValueRange& block) const {
    return ChooseScale(format, block, tensor_scale, rule);
  }
};

// Quantizes a run of lines. Returns whether the scale of every block holds the block's values.
bool QuantizeRun(const Chosen& chosen, const RealView& real, const Rounding& rounding,
                 const QuantizedPlanes& planes, const Run& lines) {
  const QuantFormat& format = chosen.format;
  const int element_bits = SizeBits(format.element);
  const int scale_bits = SizeBits(format.scaling.type);
  bool holds = true;
  ForEachBlock(format, real, lines, [&](const Block& block) {
    const ValueRange range = chosen.RangeOf(real, block);
    const BlockScale of_block = chosen.ScaleOf(range);
    holds = holds && of_block.Holds(range.lowest) && of_block.Holds(range.highest);
    if (!chosen.has_one_block() || block.lines.first == 0) {
      const std::int64_t scale_index =
          format.scaling.index(real.lines, real.k, block.lines.first, block.k.first);
      StoreCode(planes.scales, scale_bits, scale_index, of_block.code);
      if (format.scaling.has_zero_points) {
        static_cast<std::uint8_t*>(planes.zero_points)[scale_index] =
            static_cast<std::uint8_t>(of_block.zero_point);
      }
      if (format.scaling.has_offsets) {
        StoreCode(planes.offsets, scale_bits, scale_index, of_block.offset_code);
      }
    }
    // Exact. The quotients below are rounded to binary64, which moves none over a boundary between
    // codes where there is no offset: value, scale and boundary have 24, 28 and 9 bits at most, so
    // a quotient that is not on a boundary differs from it by 2^-38 of it or more.
    const double scale = DecodeElement(format.scaling.type, of_block.code) * chosen.tensor_scale;
    const double offset =
        format.scaling.has_offsets ? DecodeElement(format.scaling.type, of_block.offset_code) : 0;
    ForEachElement(real, block, [&](std::int64_t line, std::int64_t k) {
      const double quotient = scale == 0 ? 0 : (real.at(line, k) - offset) / scale;
      StoreCode(planes.codes, element_bits, line * planes.line_stride + k * planes.k_stride,
                EncodeElement(format.element, quotient, of_block.zero_point, rounding,
                              static_cast<std::uint64_t>(line * real.k + k)));
    });
  });
  return holds;
}

// Keeps the first element, row by row, that is refused, and the reason.
class Refusal {
 public:
  explicit Refusal(const RealView& real) : real_(real) {}

  // Calls why() for its text only if no element before this one was refused.
  template <typename Why>
  void Refuse(std::int64_t line, std::int64_t k, const Why& why) {
    const auto place = real_.lines_are_columns ? std::pair(k, line) : std::pair(line, k);
    if (!text_.empty() && place_ < place) return;
    place_ = place;
    text_ = absl::StrCat("element (", place.first, ", ", place.second, ") is ", real_.at(line, k),
                         ": ", why());
  }
  absl::Status status() const { return absl::InvalidArgumentError(text_); }

 private:
  const RealView& real_;
  std::pair<std::int64_t, std::int64_t> place_;
  std::string text_;
};

absl::Status NotFinite(const RealView& real) {
  Refusal refusal(real);
  ForEachElement(real, {{0, real.lines}, {0, real.k}}, [&](std::int64_t line, std::int64_t k) {
    if (std::isfinite(real.at(line, k))) return;
    refusal.Refuse(line, k, [] { return "quantized matrices are finite"; });
  });
  return refusal.status();
}

absl::Status NotHeld(const Chosen& chosen, const RealView& real) {
  Refusal refusal(real);
  ForEachBlock(chosen.format, real, {0, real.lines}, [&](const Block& block) {
    const BlockScale scale = chosen.ScaleOf(chosen.RangeOf(real, block));
    ForEachElement(real, block, [&](std::int64_t line, std::int64_t k) {
      const double value = real.at(line, k);
      if (scale.Holds(value)) return;
      refusal.Refuse(line, k, [&] { return ReasonOfRefusal(chosen.format, scale, value); });
    });
  });
  return refusal.status();
}

}  // namespace

absl::StatusOr<float> QuantizeInto(const QuantFormat& format, const RealView& real,
                                   const QuantizeOptions& options, const QuantizedPlanes& planes) {
  const std::vector<Run> runs = RunsOf(format, real, options.threads, planes);
  std::vector<Contents> contents(runs.size());
  ForEachAtOnce(runs.size(), [&](std::size_t i) { contents[i] = ContentsOf(real, runs[i]); });
  ValueRange whole;
  for (const Contents& each : contents) {
    if (!each.is_finite) return NotFinite(real);
    whole.Include(each.range.lowest);
    whole.Include(each.range.highest);
  }
  const Chosen chosen{format, options.scale_rule, whole, TensorScale(format, whole)};
  std::atomic<bool> holds{true};
  ForEachAtOnce(runs.size(), [&](std::size_t i) {
    if (!QuantizeRun(chosen, real, options.rounding, planes, runs[i])) holds = false;
  });
  if (!holds) return NotHeld(chosen, real);
  return chosen.tensor_scale;
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
  if (format.scaling.has_offsets) result.offsets.resize(result.scales.size());
  const absl::StatusOr<float> tensor_scale =
      QuantizeInto(format, real, options,
                   {result.codes.data(), real.k, 1, result.scales.data(),
                    result.zero_points.empty() ? nullptr : result.zero_points.data(),
                    result.offsets.empty() ? nullptr : result.offsets.data()});
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
