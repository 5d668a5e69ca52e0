// Chooses the scale and zero point of a block by the values in it.
#pragma once

#include <cstdint>

#include "kernels/quant/quantize.h"

namespace gemmd {

// The range of the values of a block, or of a matrix.
struct ValueRange {
  double lowest = 0;   // at most 0
  double highest = 0;  // at least 0

  void Include(double value) {
    if (value < lowest) lowest = value;
    if (value > highest) highest = value;
  }
  double magnitude() const { return -lowest > highest ? -lowest : highest; }
};

struct BlockScale {
  std::uint32_t code = 0;
  int zero_point = 0;
};

// The scale of a whole matrix: 1 for formats without one.
float TensorScale(const QuantFormat& format, const ValueRange& matrix);

// REQUIRES: every value is finite.
BlockScale ChooseScale(const QuantFormat& format, const ValueRange& block, float tensor_scale,
                       ScaleRule rule);

}  // namespace gemmd
