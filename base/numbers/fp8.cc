#include "base/numbers/fp8.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace gemmd {
namespace {

std::uint32_t BitsOf(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float FloatOf(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The numbers in which the two formats differ. Codes are without their sign.
struct E4M3 {
  static constexpr int kFractionBits = 3;
  static constexpr int kBias = 7;
  static constexpr std::uint32_t kLargest = 0x7e;   // 448
  static constexpr std::uint32_t kInfinity = 0xff;  // none
  static constexpr std::uint32_t kNan = 0x7f;
};

struct E5M2 {
  static constexpr int kFractionBits = 2;
  static constexpr int kBias = 15;
  static constexpr std::uint32_t kLargest = 0x7b;  // 57344
  static constexpr std::uint32_t kInfinity = 0x7c;
  static constexpr std::uint32_t kNan = 0x7e;
};

constexpr int kWideFractionBits = 23;
constexpr int kWideBias = 127;
constexpr std::uint32_t kWideInfinity = 0x7f800000;
constexpr std::uint32_t kWideQuietNan = 0x7fc00000;

template <typename Format>
float Decode(std::uint8_t code) {
  const std::uint32_t sign = std::uint32_t{code & 0x80u} << 24;
  const std::uint32_t magnitude = code & 0x7fu;
  if (magnitude == Format::kInfinity) return FloatOf(sign | kWideInfinity);
  if (magnitude > Format::kLargest) return FloatOf(sign | kWideQuietNan);
  // Moved into binary32's fields, the exponent is too small by the difference of the
  // biases; a multiplication corrects it and normalises subnormals.
  const float moved = FloatOf(magnitude << (kWideFractionBits - Format::kFractionBits));
  const float correction =
      FloatOf(static_cast<std::uint32_t>(2 * kWideBias - Format::kBias) << kWideFractionBits);
  return FloatOf(sign | BitsOf(moved * correction));
}

template <typename Format>
std::uint8_t Encode(float value) {
  constexpr int kDropped = kWideFractionBits - Format::kFractionBits;
  constexpr std::uint32_t kSmallestNormal =
      static_cast<std::uint32_t>(kWideBias - Format::kBias + 1) << kWideFractionBits;
  const std::uint32_t bits = BitsOf(value);
  const auto sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t code;
  if (magnitude > kWideInfinity) {
    code = Format::kNan;
  } else if (magnitude < kSmallestNormal) {
    // The result is a multiple of the smallest subnormal, which is the last place of this
    // power of two: adding it makes the adder round.
    constexpr std::uint32_t kRounder =
        static_cast<std::uint32_t>(kWideBias - Format::kBias + 1 + kDropped) << kWideFractionBits;
    code = BitsOf(FloatOf(magnitude) + FloatOf(kRounder)) - kRounder;
  } else {
    constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(kWideBias - Format::kBias)
                                      << kWideFractionBits;
    const std::uint32_t half = (1u << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1u);
    code = std::min((magnitude + half - kRebias) >> kDropped, Format::kLargest);
  }
  return static_cast<std::uint8_t>(sign | code);
}

template <typename Format>
std::array<float, 256> DecodeAll() {
  std::array<float, 256> values;
  for (int code = 0; code < 256; ++code) values[code] = Decode<Format>(code);
  return values;
}

}  // namespace

float FromFp8E4M3(std::uint8_t code) {
  static const std::array<float, 256> values = DecodeAll<E4M3>();
  return values[code];
}

float FromFp8E5M2(std::uint8_t code) {
  static const std::array<float, 256> values = DecodeAll<E5M2>();
  return values[code];
}

std::uint8_t ToFp8E4M3(float value) { return Encode<E4M3>(value); }
std::uint8_t ToFp8E5M2(float value) { return Encode<E5M2>(value); }

}  // namespace gemmd
