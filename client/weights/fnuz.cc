#include "client/weights/fnuz.h"

#include <limits>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"

namespace gemmd::client {
namespace {

constexpr Fnuz kTypes[] = {
    {"F8_E4M3FNUZ", DataType::kFp8E4M3, 8, 0x7f},
    {"F8_E5M2FNUZ", DataType::kFp8E5M2, 4, 0x7c},
};

// NaN of both types.
constexpr std::uint32_t kNanOfLike = 0xff;

}  // namespace

std::uint32_t Fnuz::SameValue(std::uint32_t code) const {
  if (code == kNan) return kNanOfLike;
  const std::uint32_t magnitude = Magnitude(code);
  const std::uint32_t lower = magnitude < 2 * step ? magnitude / 2 : magnitude - step;
  return (code & kSign) | lower;
}

std::uint32_t Fnuz::TwiceValue(std::uint32_t code) const {
  return code == kNan ? kNanOfLike : code;
}

std::uint16_t Fnuz::F16Of(std::uint32_t code) const {
  if (code == kNan) return ToF16(std::numeric_limits<float>::quiet_NaN());
  // A top code is worth four times the one of two exponents less.
  const bool is_top = IsTop(code);
  const auto value = static_cast<float>(DecodeElement(like, is_top ? code - 2 * step : code));
  return ToF16(is_top ? value * 2 : value / 2);
}

const Fnuz* FindFnuz(absl::string_view type) {
  for (const Fnuz& each : kTypes) {
    if (each.name == type) return &each;
  }
  return nullptr;
}

}  // namespace gemmd::client
