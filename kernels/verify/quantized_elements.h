// The values of a quantized operand in the order in which they lie in memory. binary64 holds them
// exactly, but for one rounding where there are offsets.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/numbers/quant/quantize.h"

namespace gemmd {

// Decodes all scales of the operand when it is made. Immutable afterwards; the view's planes
// outlive it.
class QuantizedElements {
 public:
  explicit QuantizedElements(const QuantizedView& view);

  bool k_runs_fastest() const { return view_.k_stride == 1; }

  // Values of `count` neighbours in memory: of a line from element k on or, where lines run
  // fastest, of element k of each line from `line` on.
  template <typename Real>
  void Values(std::int64_t line, std::int64_t k, std::int64_t count, Real* values) const;

  // Replaces values that Values() returned by their magnitudes, which are what is rounded on their
  // way into a sum: |(code - zero point) * scale| + |offset|. Adds to each a share of its line's
  // largest finite scale, which includes the scale of the tensor, or offset.
  template <typename Real>
  void ToMagnitudes(std::int64_t line, std::int64_t k, std::int64_t count, double share,
                    Real* values) const;

 private:
  std::size_t LineBlock(std::int64_t line) const;
  std::size_t Block(std::int64_t line, std::int64_t k) const;

  const QuantizedView view_;
  const std::int64_t k_blocks_;
  std::array<double, 256> values_of_codes_;
  // By block: line block * k_blocks_ + block of K.
  std::vector<double> scales_;
  std::vector<double> zero_points_;
  std::vector<double> offsets_;
  std::vector<double> largest_;
};

}  // namespace gemmd
