#include "server/admission/tuning_operand.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/types/span.h"

namespace gemmd {
namespace {

// A prime, so that lines of usual lengths differ from one another.
constexpr std::uint64_t kPeriodElements = 65537;

// The fields of a floating-point type's bits; no exponent bits: the type is another.
struct Format {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int unused_bits = 0;  // lowest ones, which are 0
};

Format BitsOf(DataType type) {
  switch (type) {
    case DataType::kF64:
      return {11, 52, 0};
    case DataType::kF32:
      return {8, 23, 0};
    case DataType::kTf32:
      return {8, 10, 13};
    case DataType::kF16:
      return {5, 10, 0};
    case DataType::kBf16:
      return {8, 7, 0};
    case DataType::kFp8E4M3:
      return {4, 3, 0};
    case DataType::kFp8E5M2:
      return {5, 2, 0};
    case DataType::kInt8:
    case DataType::kInt32:
    case DataType::kMxfp8E4M3:
    case DataType::kInt4:
    case DataType::kE8M0:
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      break;
  }
  return {};
}

std::uint64_t RandomElement(const Format& format, std::uint64_t random) {
  if (format.exponent_bits == 0) return random;
  const std::uint64_t bias = (std::uint64_t{1} << (format.exponent_bits - 1)) - 1;
  const std::uint64_t sign = random >> 63;
  const std::uint64_t exponent = bias - (random >> 62 & 1);
  const std::uint64_t mantissa = random & ((std::uint64_t{1} << format.mantissa_bits) - 1);
  const std::uint64_t bits =
      ((sign << format.exponent_bits | exponent) << format.mantissa_bits) | mantissa;
  return bits << format.unused_bits;
}

}  // namespace

absl::StatusOr<HostPiece> RandomOperand(const MatrixLayout& layout, std::uint64_t seed,
                                        Device* device) {
  absl::StatusOr<HostPiece> memory = device->AllocateOperand(layout.size_bytes());
  if (!memory.ok()) return memory.status();
  const absl::Span<char> bytes(memory->data, memory->size_bytes);
  const std::size_t element_bytes =
      std::max<std::size_t>(1, static_cast<std::size_t>(SizeBits(layout.type)) / 8);
  const std::size_t period = std::min<std::size_t>(bytes.size(), kPeriodElements * element_bytes);
  const Format format = BitsOf(layout.type);
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at + element_bytes <= period; at += element_bytes) {
    // Little-endian, as all that this project runs on: the low bytes are the element.
    const std::uint64_t element = RandomElement(format, random());
    std::memcpy(&bytes[at], &element, element_bytes);
  }
  for (std::size_t at = period; at < bytes.size();) {
    const std::size_t count = std::min(period, bytes.size() - at);
    std::memcpy(&bytes[at], bytes.data(), count);
    at += count;
  }
  return memory;
}

}  // namespace gemmd
