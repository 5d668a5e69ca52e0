#include "base/numbers/quant/block_scale.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/elements.h"

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
  const double wanted = (block.highest - block.lowest) / (range.highest - range.lowest);
  BlockScale result;
  result.code = EncodeNearest(scales, wanted);
  if (wanted >= RoundingLimitOf(scales)) result.limit = block.magnitude();
  const double scale = DecodeFloat(scales, result.code);
  const double offset = scale == 0 ? 0 : std::nearbyint(-block.lowest / scale);
  result.zero_point =
      static_cast<int>(std::min(range.lowest + offset, static_cast<double>(range.highest)));
  return result;
}

// The value of the largest magnitude has the lowest code.
BlockScale FullRangeScale(const QuantFormat& format, const ValueRange& block) {
  const FloatFormat& scales = *FormatOf(format.scaling.type);
  const double lowest = LowestElement(format.element);
  const double extreme = block.highest > -block.lowest ? block.highest : block.lowest;
  BlockScale result;
  if (extreme != 0) result.code = EncodeNearest(scales, extreme / lowest);
  result.limit = -lowest * RoundingLimitOf(scales);
  return result;
}

// The lowest value has the first code, the highest the last.
BlockScale OffsetScale(const QuantFormat& format, const ValueRange& block) {
  const FloatFormat& scales = *FormatOf(format.scaling.type);
  const double wanted = (block.highest - block.lowest) / LargestElement(format.element);
  BlockScale result;
  result.code = EncodeNearest(scales, wanted);
  result.offset_code = EncodeNearest(scales, block.lowest);
  // Others hold what f32 does, but for an offset of bf16 near its end, which saturates.
  const double limit = RoundingLimitOf(scales);
  const bool is_past = wanted >= limit || std::abs(block.lowest) >= limit;
  if (format.scaling.type == DataType::kF16 && is_past) result.limit = block.magnitude();
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
  if (format.scaling.has_offsets) return OffsetScale(format, block);
  if (rule == ScaleRule::kFullRange && HasRule(format, rule)) return FullRangeScale(format, block);
  const FloatFormat& scales = *FormatOf(format.scaling.type);
  const bool has_sign = HasSign(format);
  const double magnitude = has_sign ? block.magnitude() : block.highest;
  const double unit = LargestElement(format.element) * tensor_scale;
  BlockScale result;
  if (unit != 0) result.code = EncodeNearest(scales, magnitude / unit);
  // A value nearer to 0 than to the code below it rounds to 0, as everywhere.
  if (!has_sign) result.lowest = -DecodeFloat(scales, result.code) / 2;
  // A tensor's scale was chosen so that no block's is past the largest.
  if (!format.scaling.has_tensor_scale) result.limit = unit * RoundingLimitOf(scales);
  return result;
}

std::string ReasonOfRefusal(const QuantFormat& format, const BlockScale& scale, double value) {
  const absl::string_view element = Name(format.element);
  if (value < scale.lowest) {
    return absl::StrCat(element, " without zero points holds nothing below 0; formats with -zp do");
  }
  const double largest = RoundingLimitOf(*FormatOf(format.scaling.type));
  const absl::string_view scales = Name(format.scaling.type);
  if (format.scaling.has_offsets) {
    return absl::StrCat(element, " with ", scales, " scales and offsets holds blocks whose lowest ",
                        "value has a magnitude below ", largest, " and that span less than ",
                        LargestElement(format.element) * largest, "; bf16 ones hold more");
  }
  if (!format.scaling.has_zero_points) {
    const bool is_bf16 = format.scaling.type == DataType::kBf16;
    return absl::StrCat(element, " with ", scales, " scales holds magnitudes below ", scale.limit,
                        "; ", is_bf16 ? "f32" : "bf16", " scales hold more");
  }
  const IntegerRange range = RangeOf(format.element);
  return absl::StrCat(element, " with ", scales, " scales and zero points holds blocks that span ",
                      "less than ", (range.highest - range.lowest) * largest,
                      "; bf16 scales hold more");
}

}  // namespace gemmd
