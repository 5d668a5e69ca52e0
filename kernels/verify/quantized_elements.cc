#include "kernels/verify/quantized_elements.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"

namespace gemmd {

QuantizedElements::QuantizedElements(const QuantizedView& view)
    : view_(view),
      k_blocks_(view.format.scaling.has_scales ? view.format.scaling.k_blocks(view.k) : 1),
      values_of_codes_() {
  const QuantFormat& format = view.format;
  const int codes = 1 << SizeBits(format.element);
  for (int code = 0; code < codes; ++code) {
    values_of_codes_[static_cast<std::size_t>(code)] =
        DecodeElement(format.element, static_cast<std::uint32_t>(code));
  }
  const Scaling& scaling = format.scaling;
  const std::int64_t line_blocks = scaling.has_scales ? scaling.line_blocks(view.lines) : 1;
  const auto blocks = static_cast<std::size_t>(line_blocks * k_blocks_);
  scales_.assign(blocks, 1);
  zero_points_.assign(blocks, 0);
  offsets_.assign(blocks, 0);
  largest_.assign(static_cast<std::size_t>(line_blocks), 1);
  if (!scaling.has_scales) return;
  for (std::int64_t line_block = 0; line_block < line_blocks; ++line_block) {
    double& largest = largest_[static_cast<std::size_t>(line_block)] = 0;
    for (std::int64_t block = 0; block < k_blocks_; ++block) {
      const std::int64_t line = line_block * scaling.block_lines;
      const std::int64_t k = block * scaling.block_k;
      const auto at = static_cast<std::size_t>(line_block * k_blocks_ + block);
      scales_[at] = view.scale(line, k);
      zero_points_[at] = view.zero_point(line, k);
      offsets_[at] = view.offset(line, k);
      for (const double number : {scales_[at], offsets_[at]}) {
        if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
      }
    }
  }
}

std::size_t QuantizedElements::LineBlock(std::int64_t line) const {
  const std::int64_t lines = view_.format.scaling.block_lines;
  return static_cast<std::size_t>(view_.format.scaling.has_scales && lines != kWhole ? line / lines
                                                                                     : 0);
}

std::size_t QuantizedElements::Block(std::int64_t line, std::int64_t k) const {
  const std::int64_t of_k = view_.format.scaling.block_k;
  return LineBlock(line) * static_cast<std::size_t>(k_blocks_) +
         static_cast<std::size_t>(k_blocks_ == 1 ? 0 : k / of_k);
}

template <typename Real>
void QuantizedElements::Values(std::int64_t line, std::int64_t k, std::int64_t count,
                               Real* values) const {
  const int bits = SizeBits(view_.format.element);
  const std::int64_t first = line * view_.line_stride + k * view_.k_stride;
  const bool along_k = k_runs_fastest();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t block = along_k ? Block(line, k + i) : Block(line + i, k);
    const double code = values_of_codes_[LoadCode(view_.codes, bits, first + i)];
    values[i] = static_cast<Real>(code - zero_points_[block]) * static_cast<Real>(scales_[block]) +
                static_cast<Real>(offsets_[block]);
  }
}

template <typename Real>
void QuantizedElements::ToMagnitudes(std::int64_t line, std::int64_t k, std::int64_t count,
                                     double share, Real* values) const {
  const bool along_k = k_runs_fastest();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t of = along_k ? line : line + i;
    const auto offset = static_cast<Real>(offsets_[Block(of, along_k ? k + i : k)]);
    values[i] = std::abs(values[i] - offset) + std::abs(offset) +
                static_cast<Real>(share * largest_[LineBlock(of)]);
  }
}

template void QuantizedElements::Values(std::int64_t, std::int64_t, std::int64_t, double*) const;
template void QuantizedElements::Values(std::int64_t, std::int64_t, std::int64_t,
                                        long double*) const;
template void QuantizedElements::ToMagnitudes(std::int64_t, std::int64_t, std::int64_t, double,
                                              double*) const;
template void QuantizedElements::ToMagnitudes(std::int64_t, std::int64_t, std::int64_t, double,
                                              long double*) const;

}  // namespace gemmd
