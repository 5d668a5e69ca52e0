#include "base/numbers/quant/elements.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/quant/code_table.h"

namespace gemmd {
namespace {

double RoundToInteger(double value, const Rounding& rounding, std::uint64_t index) {
  if (!rounding.is_stochastic) return std::nearbyint(value);
  const double magnitude = std::abs(value);
  const double below = std::floor(magnitude);
  const bool up = (magnitude - below) * 0x1p32 > RandomBits(rounding.seed, index);
  return std::copysign(below + (up ? 1 : 0), value);
}

}  // namespace

const FloatFormat* FormatOf(DataType type) {
  switch (type) {
    case DataType::kFp8E4M3:
      return &kE4M3;
    case DataType::kFp8E5M2:
      return &kE5M2;
    case DataType::kFp6E3M2:
      return &kE3M2;
    case DataType::kFp6E2M3:
      return &kE2M3;
    case DataType::kFp4E2M1:
      return &kE2M1;
    case DataType::kF16:
      return &kBinary16;
    case DataType::kBf16:
      return &kBfloat16;
    case DataType::kF32:
      return &kBinary32;
    case DataType::kF64:
    case DataType::kTf32:
    case DataType::kInt8:
    case DataType::kInt32:
    case DataType::kMxfp8E4M3:
    case DataType::kInt4:
    case DataType::kE8M0:
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      break;
  }
  return nullptr;
}

bool IsQuantizedInteger(DataType type) {
  return type == DataType::kInt8 || type == DataType::kUint8 || type == DataType::kInt4 ||
         type == DataType::kUint4;
}

IntegerRange RangeOf(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return {-128, 127};
    case DataType::kUint8:
      return {0, 255};
    case DataType::kInt4:
      return {-8, 7};
    case DataType::kUint4:
      return {0, 15};
    case DataType::kF64:
    case DataType::kF32:
    case DataType::kTf32:
    case DataType::kF16:
    case DataType::kBf16:
    case DataType::kInt32:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
    case DataType::kMxfp8E4M3:
    case DataType::kE8M0:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      break;
  }
  return {0, 0};  // is no integer of at most 8 bits
}

double LargestElement(DataType type) {
  if (const CodeTable* const table = CodeTableOf(type)) {
    return *std::max_element(table->begin(), table->end());
  }
  return IsQuantizedInteger(type) ? RangeOf(type).highest : LargestOf(*FormatOf(type));
}

double LowestElement(DataType type) {
  if (const CodeTable* const table = CodeTableOf(type)) {
    return *std::min_element(table->begin(), table->end());
  }
  return IsQuantizedInteger(type) ? RangeOf(type).lowest : -LargestElement(type);
}

double DecodeElement(DataType type, std::uint32_t code) {
  switch (type) {
    case DataType::kInt8:
      return static_cast<std::int8_t>(code);
    case DataType::kUint8:
      return static_cast<std::uint8_t>(code);
    case DataType::kInt4:
      return static_cast<int>((code & 0xfu) ^ 8u) - 8;
    case DataType::kUint4:
      return code & 0xfu;
    case DataType::kE8M0:
      return DecodeE8M0(static_cast<std::uint8_t>(code));
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      return (*CodeTableOf(type))[code & 0xfu];
    case DataType::kF64:
    case DataType::kF32:
    case DataType::kTf32:
    case DataType::kF16:
    case DataType::kBf16:
    case DataType::kInt32:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
    case DataType::kMxfp8E4M3:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
      break;
  }
  return DecodeFloat(*FormatOf(type), code);
}

std::uint32_t EncodeElement(DataType type, double value, int zero_point, const Rounding& rounding,
                            std::uint64_t index) {
  if (const CodeTable* const table = CodeTableOf(type)) {
    return EncodeInTable(*table, value, rounding, index);
  }
  if (!IsQuantizedInteger(type)) {
    const FloatFormat& format = *FormatOf(type);
    return rounding.is_stochastic
               ? EncodeStochastic(format, value, RandomBits(rounding.seed, index))
               : EncodeNearest(format, value);
  }
  const IntegerRange range = RangeOf(type);
  const double moved =
      std::isnan(value) ? zero_point : RoundToInteger(value, rounding, index) + zero_point;
  const auto integer = static_cast<int>(
      std::clamp(moved, static_cast<double>(range.lowest), static_cast<double>(range.highest)));
  return static_cast<std::uint32_t>(integer) & ((1u << SizeBits(type)) - 1);
}

}  // namespace gemmd
