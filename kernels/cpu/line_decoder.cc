#include "kernels/cpu/line_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "kernels/cpu/code_dots.h"
#include "kernels/cpu/code_run.h"

namespace gemmd {
namespace {

// Elements that are decoded at a time, and numbers that are at hand for them.
constexpr std::int64_t kRun = 1024;
// One block, however long.
constexpr std::int64_t kOneBlock = std::int64_t{1} << 62;
constexpr float kOne = 1;
constexpr Blocks kAsTheyAre = {kOneBlock, &kOne};

// values[i] times a power of two, rounded once.
void Times(double power, std::int64_t count, float* values) {
  const auto factor = static_cast<float>(power);
  if (factor == 1) return;
  if (std::isnormal(factor)) {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
    return;
  }
  // Beyond what f32 holds.
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<double>(values[i]) * power);
  }
}

}  // namespace

LineDecoder::LineDecoder(const QuantizedView& view)
    : view_(view),
      has_blocks_(view.format.scaling.has_offsets ||
                  (view.format.scaling.has_scales && view.format.scaling.k_blocks(view.k) > 1)) {}

std::int64_t LineDecoder::ScaleAt(std::int64_t line, std::int64_t k) const {
  const std::int64_t lines = view_.scale_lines == 0 ? view_.lines : view_.scale_lines;
  return view_.format.scaling.index(lines, view_.k, line, k);
}

double LineDecoder::LineScale(std::int64_t line) const {
  if (!has_blocks_) return view_.block_scale(line, 0);
  const std::int64_t block = view_.format.scaling.block_k;
  float numbers[kRun];
  float largest = 0;
  const auto include = [&](const Plane& plane, std::int64_t k, std::int64_t count) {
    ReadPlaneAlongK(plane, line, k, count, 1, numbers);
    largest = std::max(largest, LargestFinite(numbers, count));
  };
  for (std::int64_t k = 0; k < view_.k; k += kRun * block) {
    const std::int64_t count = std::min(kRun, (view_.k - k + block - 1) / block);
    include(scales(), k, count);
    if (has_offsets()) include(offsets(), k, count);
  }
  return largest == 0 ? 1 : std::ldexp(1.0, std::ilogb(largest));
}

double LineDecoder::BlockFactor(std::int64_t line, std::int64_t k, double line_scale) const {
  return has_blocks_ ? view_.block_scale(line, k) / line_scale : 1;
}

std::int64_t LineDecoder::EndOfBlock(std::int64_t k) const {
  if (!has_blocks_) return view_.k;
  const std::int64_t block = view_.format.scaling.block_k;
  return std::min((k / block + 1) * block, view_.k);
}

// ------------------------------------------------------------- numbers of blocks

LineDecoder::Plane LineDecoder::zero_points() const {
  const bool has_sign = RangeOf(view_.format.element).lowest < 0;
  return {has_sign ? DataType::kInt8 : DataType::kUint8, view_.zero_points};
}

void LineDecoder::ReadPlaneAlongK(const Plane& plane, std::int64_t line, std::int64_t k,
                                  std::int64_t count, double power, float* out) const {
  const Scaling& scaling = view_.format.scaling;
  CodeRun run = {plane.type, plane.data, ScaleAt(line, k), count};
  std::uint8_t codes[kRun * sizeof(float)];
  if (scaling.order != ScaleOrder::kAlongK && count > 1) {
    // They are gathered first.
    const auto size = static_cast<std::size_t>(SizeBits(plane.type) / 8);
    const std::int64_t lines = view_.scale_lines == 0 ? view_.lines : view_.scale_lines;
    const bool is_regular = scaling.order == ScaleOrder::kAlongLines;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = is_regular ? run.first + i * scaling.line_blocks(lines)
                                         : ScaleAt(line, k + i * scaling.block_k);
      std::memcpy(codes + static_cast<std::size_t>(i) * size,
                  static_cast<const char*>(plane.data) + static_cast<std::size_t>(at) * size, size);
    }
    run.plane = codes;
    run.first = 0;
  }
  const auto factor = static_cast<float>(power);
  if (std::isnormal(factor)) return DecodeRun(run, {kOneBlock, &factor}, out);
  DecodeRun(run, kAsTheyAre, out);
  Times(power, count, out);
}

void LineDecoder::ReadPlaneAcross(const Plane& plane, std::int64_t line, std::int64_t lines,
                                  std::int64_t k, const double* powers, float* out) const {
  const Scaling& scaling = view_.format.scaling;
  if (scaling.order == ScaleOrder::kAlongLines && scaling.block_lines == 1) {
    DecodeRun({plane.type, plane.data, ScaleAt(line, k), lines}, kAsTheyAre, out);
  } else {
    for (std::int64_t i = 0; i < lines; ++i) {
      DecodeRun({plane.type, plane.data, ScaleAt(line + i, k), 1}, kAsTheyAre, out + i);
    }
  }
  if (powers == nullptr) return;
  for (std::int64_t i = 0; i < lines; ++i) Times(1 / powers[i], 1, out + i);
}

void LineDecoder::NumbersAlongK(std::int64_t line, std::int64_t k, std::int64_t count,
                                const double* line_scale, const Numbers& numbers) const {
  if (!has_blocks_ || line_scale == nullptr) {
    std::fill_n(numbers.factors, count, 1.0F);
  } else {
    ReadPlaneAlongK(scales(), line, k, count, 1 / *line_scale, numbers.factors);
  }
  if (numbers.zero_points != nullptr) {
    ReadPlaneAlongK(zero_points(), line, k, count, 1, numbers.zero_points);
  }
  if (numbers.offsets == nullptr) return;
  if (line_scale == nullptr) {
    std::fill_n(numbers.offsets, count, 0.0F);
  } else {
    ReadPlaneAlongK(offsets(), line, k, count, 1 / *line_scale, numbers.offsets);
  }
}

void LineDecoder::NumbersAcross(std::int64_t line, std::int64_t lines, std::int64_t k,
                                const double* line_scales, const Numbers& numbers) const {
  if (!has_blocks_ || line_scales == nullptr) {
    std::fill_n(numbers.factors, lines, 1.0F);
  } else {
    ReadPlaneAcross(scales(), line, lines, k, line_scales, numbers.factors);
  }
  if (numbers.zero_points != nullptr) {
    ReadPlaneAcross(zero_points(), line, lines, k, nullptr, numbers.zero_points);
  }
  if (numbers.offsets == nullptr) return;
  if (line_scales == nullptr) {
    std::fill_n(numbers.offsets, lines, 0.0F);
  } else {
    ReadPlaneAcross(offsets(), line, lines, k, line_scales, numbers.offsets);
  }
}

// ------------------------------------------------------------- elements

void LineDecoder::ReadAlongK(std::int64_t line, std::int64_t k, std::int64_t depth,
                             const double* line_scale, float* out) const {
  NumbersRoom<kRun> room;
  const Numbers numbers = NumbersIn(&room);
  const std::int64_t block = has_blocks_ ? view_.format.scaling.block_k : kOneBlock;
  for (std::int64_t end = k + depth; k < end;) {
    // Up to where the block that k is in ends; from there on, whole blocks.
    const std::int64_t rest = std::min(end - k, block - k % block);
    const bool is_whole = k % block == 0;
    const std::int64_t count = is_whole ? std::min(kRun, end - k) : rest;
    CodeRun run = {view_.format.element, view_.codes, line * view_.line_stride + k, count};
    if (is_whole && block % 16 == 0) {
      NumbersAlongK(line, k, (count + block - 1) / block, line_scale, numbers);
      DecodeRun(run, numbers.blocks(block), out);
    } else {
      run.count = std::min({kRun, count, rest});
      NumbersAlongK(line, k, 1, line_scale, numbers);
      DecodeRun(run, numbers.blocks(kOneBlock), out);
    }
    k += run.count;
    out += run.count;
  }
}

void LineDecoder::ReadAcross(const LinePart& part, const double* line_scales, float* out,
                             std::int64_t pitch) const {
  for (std::int64_t i = 0; i < part.lines; i += kRun) {
    NumbersRoom<kRun> room;
    const Numbers numbers = NumbersIn(&room);
    const std::int64_t line = part.line + i;
    const std::int64_t lines = std::min(kRun, part.lines - i);
    for (std::int64_t p = 0; p < part.depth; ++p) {
      const std::int64_t k = part.k + p;
      if (p == 0 || EndOfBlock(k - 1) == k) {
        NumbersAcross(line, lines, k, line_scales == nullptr ? nullptr : line_scales + i, numbers);
      }
      DecodeRun(
          {view_.format.element, view_.codes, line * view_.line_stride + k * view_.k_stride, lines},
          numbers.blocks(1), out + p * pitch + i);
    }
  }
}

bool LineDecoder::AddDots(std::int64_t line, const DotPart& part, const double* line_scales,
                          const DotRows& rows, RowGemmForm form, float* chains,
                          std::int64_t pitch) const {
  constexpr std::int64_t kSixteen = 16;
  constexpr std::int64_t kSpan = kSpanSteps * kSixteen;
  const std::int64_t block = has_blocks_ ? view_.format.scaling.block_k : kOneBlock;
  const std::int64_t of_block = part.k % block;
  const std::int64_t depth = part.steps * kSixteen;
  // Each span has whole blocks, or all of them are parts of one.
  const bool is_one = of_block + depth <= block;
  const bool are_whole =
      of_block == 0 && block % kSixteen == 0 && (kSpan % block == 0 || block % kSpan == 0);
  if (!is_one && !are_whole) return false;

  const int bits = SizeBits(view_.format.element);
  NumbersRoom<kMostDotSteps> rooms[kDotColumns];
  CodeLines lines;
  lines.type = view_.format.element;
  // Memory would find the next lines late, because each is over soon.
  lines.ahead = kDotColumns * view_.line_stride * bits / 8;
  for (std::int64_t j = 0; j < kDotColumns; ++j) {
    const std::int64_t first_bit = ((line + j) * view_.line_stride + part.k) * bits;
    if (first_bit % 8 != 0) return false;
    lines.codes[j] = static_cast<const std::uint8_t*>(view_.codes) + first_bit / 8;
    const Numbers numbers = NumbersIn(&rooms[j]);
    NumbersAlongK(line + j, part.k, is_one ? 1 : (depth + block - 1) / block,
                  line_scales == nullptr ? nullptr : line_scales + j, numbers);
    lines.numbers[j] = numbers.blocks(is_one ? kOneBlock : block);
  }
  for (std::int64_t step = 0; step < part.steps; step += kSpanSteps) {
    CodeLines span = lines;
    DotRows of_span = rows;
    of_span.data += step * kSixteen;
    for (std::int64_t j = 0; j < kDotColumns; ++j) {
      const std::int64_t before = step * kSixteen / lines.numbers[j].length;
      span.codes[j] += step * kSixteen * bits / 8;
      span.numbers[j].factors += before;
      if (has_zero_points()) span.numbers[j].zero_points += before;
      if (has_offsets()) span.numbers[j].offsets += before;
    }
    if (!AddCodeDots(span, of_span, std::min(kSpanSteps, part.steps - step),
                     chains + step / kSpanSteps * pitch, form)) {
      return false;
    }
  }
  return true;
}

bool LineDecoder::AddLines(std::int64_t line, std::int64_t lines, const DotPart& part,
                           const DotRows& rows, RowGemmForm form, float* sums,
                           std::int64_t pitch) const {
  constexpr std::int64_t kSixteen = 16;
  if (has_blocks_ || has_zero_points()) return false;
  const int bits = SizeBits(view_.format.element);
  // For all parts, or for none.
  if (view_.line_stride != 1 || line * bits % 8 != 0 || view_.k_stride * bits % 8 != 0) {
    return false;
  }
  const CodeRows codes = {
      view_.format.element,
      static_cast<const std::uint8_t*>(view_.codes) + (line + part.k * view_.k_stride) * bits / 8,
      kSixteen * view_.k_stride * bits / 8};
  return AddCodeLines(codes, lines, rows, part.steps, sums, pitch, form);
}

template <>
void LineDecoder::Read(const LinePart& part, const double* line_scales, float* out,
                       std::int64_t pitch) const {
  if (!lies_along_k()) return ReadAcross(part, line_scales, out, pitch);
  for (std::int64_t i = 0; i < part.lines; ++i) {
    ReadAlongK(part.line + i, part.k, part.depth,
               line_scales == nullptr ? nullptr : line_scales + i, out + i * pitch);
  }
}

// Whoever asks for sums in f64 wants them exact, not quick.
template <>
void LineDecoder::Read(const LinePart& part, const double* line_scales, double* out,
                       std::int64_t pitch) const {
  for (std::int64_t i = 0; i < part.lines; ++i) {
    const std::int64_t line = part.line + i;
    double zero_point = 0;
    double factor = 0;
    double offset = 0;
    for (std::int64_t p = 0; p < part.depth; ++p) {
      const std::int64_t k = part.k + p;
      if (p == 0 || EndOfBlock(k - 1) == k) {
        zero_point = view_.zero_point(line, k);
        factor = line_scales == nullptr ? 1 : BlockFactor(line, k, line_scales[i]);
        if (has_offsets() && line_scales != nullptr) {
          offset = view_.offset(line, k) / line_scales[i];
        }
      }
      const double value = DecodeElement(view_.format.element, view_.code(line, k)) - zero_point;
      out[lies_along_k() ? i * pitch + p : p * pitch + i] =
          has_offsets() ? std::fma(value, factor, offset) : value * factor;
    }
  }
}

template <typename Real>
void LineDecoder::Lines(std::int64_t line, std::int64_t lines, const double* line_scales,
                        Real* out) const {
  if (lies_along_k()) return Read({line, lines, 0, view_.k}, line_scales, out, view_.k);
  std::vector<Real> across(static_cast<std::size_t>(lines));
  for (std::int64_t k = 0; k < view_.k; ++k) {
    Read({line, lines, k, 1}, line_scales, across.data(), lines);
    for (std::int64_t i = 0; i < lines; ++i) {
      out[i * view_.k + k] = across[static_cast<std::size_t>(i)];
    }
  }
}
template void LineDecoder::Lines(std::int64_t, std::int64_t, const double*, float*) const;
template void LineDecoder::Lines(std::int64_t, std::int64_t, const double*, double*) const;

template <typename Real>
void DecodedColumns<Real>::Read(std::int64_t column, std::int64_t columns, std::int64_t k,
                                std::int64_t depth, Real* out, std::int64_t pitch) const {
  decoder_.Read({first_line_ + column, columns, first_k_ + k, depth},
                line_scales_ == nullptr ? nullptr : line_scales_ + column, out, pitch);
}

template <typename Real>
bool DecodedColumns<Real>::AddDots(std::int64_t column, const DotPart& part, const DotRows& rows,
                                   RowGemmForm form, float* chains, std::int64_t pitch) const {
  return decoder_.AddDots(first_line_ + column, {first_k_ + part.k, part.steps},
                          line_scales_ == nullptr ? nullptr : line_scales_ + column, rows, form,
                          chains, pitch);
}

template <typename Real>
bool DecodedColumns<Real>::AddLines(std::int64_t column, std::int64_t columns, const DotPart& part,
                                    const DotRows& rows, RowGemmForm form, float* sums,
                                    std::int64_t pitch) const {
  return decoder_.AddLines(first_line_ + column, columns, {first_k_ + part.k, part.steps}, rows,
                           form, sums, pitch);
}

template class DecodedColumns<float>;
template class DecodedColumns<double>;

}  // namespace gemmd
