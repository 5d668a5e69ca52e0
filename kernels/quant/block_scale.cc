#include "kernels/quant/block_scale.h"

#include <algorithm>
#include <cmath>

#include "kernels/quant/elements.h"

namespace gemmd {
namespace {

// The code of 2^exponent, or of the nearest power that there is.
std::uint32_t PowerOfTwo(int exponent) {
  return static_cast<std::uint32_t>(std::clamp(exponent, -127, 127) + 127);
}

std::uint32_t MxScale(DataType element, double magnitude, ScaleRule rule) {
  if (magnitude == 0) return PowerOfTwo(-127);
  const double largest = LargestElement(element);
  const int exponent = std::ilogb(magnitude) - std::ilogb(largest);
  const bool saturates = magnitude > std::ldexp(largest, exponent);
  return PowerOfTwo(exponent + (rule == ScaleRule::kRoundUp && saturates ? 1 : 0));
}

BlockScale AffineScale(const QuantFormat& format, const ValueRange& block) {
  const FloatFormat& scales = *FormatOf(format.scaling.type);
  const IntegerRange range = RangeOf(format.element);
  BlockScale result;
  result.code =
      EncodeNearest(scales, (block.highest - block.lowest) / (range.highest - range.lowest));
  const double scale = DecodeFloat(scales, result.code);
  const double offset = scale == 0 ? 0 : std::nearbyint(-block.lowest / scale);
  result.zero_point =
      static_cast<int>(std::min(range.lowest + offset, static_cast<double>(range.highest)));
  return result;
}

}  // namespace

float TensorScale(const QuantFormat& format, const ValueRange& matrix) {
  if (!format.scaling.has_tensor_scale) return 1;
  const double largest = LargestOf(*FormatOf(format.scaling.type)) * LargestElement(format.element);
  return static_cast<float>(matrix.magnitude() / largest);
}

BlockScale ChooseScale(const QuantFormat& format, const ValueRange& block, float tensor_scale,
                       ScaleRule rule) {
  if (format.scaling.type == DataType::kE8M0) {
    return {MxScale(format.element, block.magnitude(), rule), 0};
  }
  if (format.scaling.has_zero_points) return AffineScale(format, block);
  const bool has_no_sign =
      IsQuantizedInteger(format.element) && RangeOf(format.element).lowest == 0;
  const double magnitude = has_no_sign ? block.highest : block.magnitude();
  const double unit = LargestElement(format.element) * tensor_scale;
  return {unit == 0 ? 0 : EncodeNearest(*FormatOf(format.scaling.type), magnitude / unit), 0};
}

}  // namespace gemmd
