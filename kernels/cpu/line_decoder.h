// Lines of a quantized operand as f32 or f64, for kernels that multiply those.
#pragma once

#include <cstdint>

#include "base/numbers/quant/quantize.h"

namespace gemmd {

// Splits what an element is worth into three factors:
//
//     (code - zero point) * block factor * line factor
//
// The line factor is the scale itself where all of K has one scale, else a power of two, that of
// the largest scale of the line; so block factors are below 2, and values neither overflow nor
// depend on other lines. The scale of the tensor belongs to the line factor.
class LineDecoder {
 public:
  explicit LineDecoder(const QuantizedView& view);

  // Returns the scale as binary64 holds it, without the scale of the tensor. Reads every scale of
  // the line.
  double LineScale(std::int64_t line) const;
  // REQUIRES: line_scale is the line's. Exact: a division by a power of two, or 1.
  double BlockFactor(std::int64_t line, std::int64_t k, double line_scale) const;

  // Where the block of k ends, at most at K.
  std::int64_t EndOfBlock(std::int64_t k) const;

  // out[i * K + k] = (code - zero point) * block factor of line first + i, rounded once.
  // line_scales[i] is its LineScale().
  template <typename Real>
  void Values(std::int64_t first, std::int64_t lines, const double* line_scales, Real* out) const;

  // out[i * K + k] = code - zero point. REQUIRES: elements are integers.
  void Integers(std::int64_t first, std::int64_t lines, float* out) const;

 private:
  const QuantizedView view_;
  const bool has_blocks_;  // along K
};

}  // namespace gemmd
