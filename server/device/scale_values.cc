#include "server/device/scale_values.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

bool MayBeNegative(DataType type) { return type != DataType::kFp8E4M3; }

// The first code whose magnitude is over the largest finite one, or that has a sign and may not,
// but for that of -0; `count` if there is none.
template <typename Code>
std::uint64_t FirstBad(const FloatFormat& format, bool may_be_negative, const void* scales,
                       std::uint64_t count) {
  const auto largest = static_cast<Code>(format.largest_code());
  const auto sign = static_cast<Code>(format.sign_bit());
  const auto ignored = static_cast<Code>(may_be_negative ? sign : 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    Code code;
    std::memcpy(&code, static_cast<const char*>(scales) + i * sizeof code, sizeof code);
    if (static_cast<Code>(code & ~ignored) > largest && code != sign) return i;
  }
  return count;
}

std::uint64_t FirstBad(DataType type, const void* scales, std::uint64_t count) {
  if (type == DataType::kE8M0) {
    const void* const nan = std::memchr(scales, 0xFF, count);
    return nan == nullptr ? count
                          : static_cast<std::uint64_t>(static_cast<const char*>(nan) -
                                                       static_cast<const char*>(scales));
  }
  const FloatFormat& format = *FormatOf(type);
  const bool negative = MayBeNegative(type);
  if (SizeBits(type) == 32) return FirstBad<std::uint32_t>(format, negative, scales, count);
  if (SizeBits(type) == 16) return FirstBad<std::uint16_t>(format, negative, scales, count);
  return FirstBad<std::uint8_t>(format, negative, scales, count);
}

}  // namespace

absl::Status CheckScaleValues(absl::string_view field, DataType type, const void* scales,
                              std::uint64_t bytes) {
  const int bits = SizeBits(type);
  const std::uint64_t count = bytes / static_cast<std::uint64_t>(bits / 8);
  const std::uint64_t bad = FirstBad(type, scales, count);
  if (bad == count) return absl::OkStatus();
  if (type == DataType::kE8M0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, "[", bad, "] is 0xff, the NaN of e8m0; a scale must be 0 to 0xfe"));
  }
  const std::uint32_t code = LoadCode(scales, bits, static_cast<std::int64_t>(bad));
  return absl::InvalidArgumentError(
      absl::StrCat(field, "[", bad, "] is ", DecodeElement(type, code), "; it must be finite",
                   MayBeNegative(type) ? "" : " and, of fp8_e4m3, at least 0"));
}

absl::Status CheckZeroPoints(absl::string_view field, DataType element, const void* zero_points,
                             std::uint64_t count) {
  if (SizeBits(element) == 8) return absl::OkStatus();  // a byte is one of its values
  IntegerRange range = RangeOf(element);
  if (element == DataType::kUint4) ++range.highest;  // GPTQ has 16
  const auto* const bytes = static_cast<const std::uint8_t*>(zero_points);
  for (std::uint64_t i = 0; i < count; ++i) {
    const int value = range.lowest < 0 ? static_cast<std::int8_t>(bytes[i]) : bytes[i];
    if (value >= range.lowest && value <= range.highest) continue;
    return absl::InvalidArgumentError(absl::StrCat(field, "[", i, "] is ", value, "; of ",
                                                   Name(element), " it must be ", range.lowest,
                                                   " to ", range.highest));
  }
  return absl::OkStatus();
}

}  // namespace gemmd
