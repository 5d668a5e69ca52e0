// Chooses the scale, zero point and offset of a block by the values in it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/numbers/quant/quantize.h"

namespace gemmd {

// The range of some values, and at first of 0.
struct ValueRange {
  double lowest = 0;
  double highest = 0;

  void Include(double value) {
    if (value < lowest) lowest = value;
    if (value > highest) highest = value;
  }
  double magnitude() const { return -lowest > highest ? -lowest : highest; }
};

struct BlockScale {
  std::uint32_t code = 0;
  int zero_point = 0;
  std::uint32_t offset_code = 0;
  // A value that is less than `lowest`, or whose magnitude is `limit` or more, has no code.
  double lowest = -std::numeric_limits<double>::infinity();
  double limit = std::numeric_limits<double>::infinity();

  bool Holds(double value) const { return value >= lowest && std::abs(value) < limit; }
};

// Why a value of a block has no code, with the limit. REQUIRES: its scale does not hold it.
std::string ReasonOfRefusal(const QuantFormat& format, const BlockScale& scale, double value);

// The scale of a whole matrix: 1 for formats without one.
float TensorScale(const QuantFormat& format, const ValueRange& matrix);

// A scale that rounds past the largest of its type would saturate the block's values, so it does
// not hold them. Only f16 is so narrow: every other type has a scale for each range of f32.
// REQUIRES: every value is finite.
BlockScale ChooseScale(const QuantFormat& format, const ValueRange& block, float tensor_scale,
                       ScaleRule rule);

}  // namespace gemmd
