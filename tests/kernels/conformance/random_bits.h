// Operands of single instructions, each from a key and an index alone: what is recorded on a GPU
// and what the emulator replays compute them with the same code, so that no operand is stored.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

namespace gemmd::conformance {

// The classes of operands. Blocks of a set go through them in turn.
enum class OperandClass : std::uint32_t {
  kNormal,      // between 2^-3 and 2^3
  kWide,        // any finite exponent, zeros and subnormals among them
  kSubnormal,   // A at and below the smallest normal number, B large
  kSpecial,     // one in 32 an infinity, a NaN with any payload or a signed zero
  kLarge,       // sums that overflow
  kSparse,      // half of them zero, the rest powers of two
  kAnyBits,     // all bits random
  kCancelling,  // neighbours along K that nearly cancel
};
inline constexpr std::uint32_t kOperandClasses = 8;

inline const char* Name(OperandClass operands) {
  static constexpr const char* kNames[] = {"normal", "wide",   "subnormal", "special",
                                           "large",  "sparse", "any bits",  "cancelling"};
  return kNames[static_cast<std::uint32_t>(operands)];
}

inline namespace GEMMD_BACKEND {

// The finalizer of splitmix64.
GEMMD_DEVICE std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The key of one instruction of one block of one set.
GEMMD_DEVICE std::uint64_t KeyOf(std::uint64_t set, std::uint64_t block,
                                 std::uint64_t instruction) {
  return Mix(set << 48 ^ block << 20 ^ instruction);
}

GEMMD_DEVICE std::uint64_t RandomBits(std::uint64_t key, std::uint64_t index) {
  return Mix(key ^ Mix(index));
}

// A 16-bit float from 32 random bits.
GEMMD_DEVICE std::uint32_t RandomHalf(bool is_bf16, OperandClass operands, bool is_b,
                                      std::uint32_t random) {
  const std::uint32_t fraction_bits = is_bf16 ? 7 : 10;
  const std::uint32_t bias = is_bf16 ? 127 : 15;
  const std::uint32_t all_ones = 2 * bias + 1;
  const std::uint32_t sign = (random & 1) << 15;
  const std::uint32_t fraction = (random >> 1) & ((1u << fraction_bits) - 1);
  const std::uint32_t choice = random >> 12;  // 20 bits
  std::uint32_t exponent = bias - 3 + choice % 6;
  switch (operands) {
    case OperandClass::kWide:
      exponent = choice % all_ones;
      break;
    case OperandClass::kSubnormal:
      exponent = is_b ? all_ones - 8 + choice % 7 : choice % 3;
      break;
    case OperandClass::kSpecial: {
      if (choice % 32 != 0) break;
      const std::uint32_t kind = choice / 32 % 4;
      if (kind == 0) return sign;                                       // zero
      if (kind == 1) return sign | all_ones << fraction_bits;           // infinity
      return sign | all_ones << fraction_bits | fraction | (kind - 2);  // NaN, mostly
    }
    case OperandClass::kLarge:
      exponent = all_ones - (is_bf16 ? 70 : 6) + choice % 6;
      break;
    case OperandClass::kSparse:
      return choice % 2 == 0 ? 0 : sign | (bias - 2 + choice / 2 % 4) << fraction_bits;
    case OperandClass::kAnyBits:
      return random >> 16;
    default:
      break;
  }
  return sign | exponent << fraction_bits | fraction;
}

// An 8-bit float from 32 random bits, as RandomHalf() makes those of 16.
GEMMD_DEVICE std::uint32_t RandomFp8(bool is_e4m3, OperandClass operands, bool is_b,
                                     std::uint32_t random) {
  const std::uint32_t fraction_bits = is_e4m3 ? 3 : 2;
  const std::uint32_t bias = is_e4m3 ? 7 : 15;
  const std::uint32_t all_ones = 2 * bias + 1;
  const std::uint32_t sign = (random & 1) << 7;
  const std::uint32_t fraction = (random >> 1) & ((1u << fraction_bits) - 1);
  const std::uint32_t choice = random >> 12;
  std::uint32_t exponent = bias - 3 + choice % 6;
  switch (operands) {
    case OperandClass::kWide:
      exponent = choice % all_ones;
      break;
    case OperandClass::kSubnormal:
      exponent = is_b ? all_ones - 4 + choice % 3 : choice % 3;
      break;
    case OperandClass::kSpecial:
      if (choice % 32 == 0) return sign | all_ones << fraction_bits | fraction;
      if (choice % 32 == 1) return sign;
      break;
    case OperandClass::kLarge:
      exponent = all_ones - 1;
      break;
    case OperandClass::kSparse:
      if (choice % 2 == 0) return 0;
      return sign | exponent << fraction_bits;
    case OperandClass::kAnyBits:
      return random >> 8 & 0xff;
    default:
      break;
  }
  return sign | exponent << fraction_bits | fraction;
}

// Two neighbours along K, the first in the low half.
GEMMD_DEVICE std::uint32_t RandomPair(bool is_bf16, OperandClass operands, bool is_b,
                                      std::uint64_t random) {
  const std::uint32_t low = RandomHalf(is_bf16, operands, is_b, static_cast<std::uint32_t>(random));
  const auto other = static_cast<std::uint32_t>(random >> 32);
  if (operands == OperandClass::kCancelling) {
    const std::uint32_t high = is_b ? low : (low ^ 0x8000u) ^ (other & 1);
    return low | high << 16;
  }
  return low | RandomHalf(is_bf16, operands, is_b, other) << 16;
}

// Four neighbours along K of e4m3 or e5m2; those of kCancelling as RandomPair() makes them.
GEMMD_DEVICE std::uint32_t RandomFp8s(bool is_e4m3, OperandClass operands, bool is_b,
                                      std::uint64_t key, std::uint32_t word) {
  std::uint32_t bytes = 0;
  for (std::uint32_t e = 0; e < 4; ++e) {
    const auto random = static_cast<std::uint32_t>(RandomBits(key, 4 * word + e));
    std::uint32_t byte = RandomFp8(is_e4m3, operands, is_b, random);
    if (operands == OperandClass::kCancelling && e % 2 == 1) {
      byte = bytes >> (8 * (e - 1)) & 0xff;
      if (!is_b) byte ^= 0x80u ^ (random & 1);
    }
    bytes |= byte << (8 * e);
  }
  return bytes;
}

// Four scales: E8M0, or E4M3 without a sign.
GEMMD_DEVICE std::uint32_t RandomScales(bool is_e4m3, OperandClass operands, std::uint64_t key,
                                        std::uint32_t word) {
  std::uint32_t bytes = 0;
  for (std::uint32_t e = 0; e < 4; ++e) {
    const auto random = static_cast<std::uint32_t>(RandomBits(key, 4 * word + e));
    std::uint32_t byte = is_e4m3 ? 0x28 + random % 32 : 122 + random % 11;
    if (operands == OperandClass::kWide) byte = is_e4m3 ? random % 0x7f : 64 + random % 128;
    if (operands == OperandClass::kLarge) byte = is_e4m3 ? 0x70 + random % 15 : 160 + random % 31;
    if (operands == OperandClass::kSpecial && random % 64 == 0) byte = is_e4m3 ? 0x7f : 0xff;
    if (operands == OperandClass::kAnyBits) byte = random & (is_e4m3 ? 0x7f : 0xff);
    bytes |= byte << (8 * e);
  }
  return bytes;
}

// The bits of an f32 addend.
GEMMD_DEVICE std::uint32_t RandomAddend(OperandClass operands, std::uint64_t random) {
  const auto fraction = static_cast<std::uint32_t>(random) & 0x7fffffu;
  const std::uint32_t sign = static_cast<std::uint32_t>(random >> 23 & 1) << 31;
  const auto choice = static_cast<std::uint32_t>(random >> 32);
  std::uint32_t exponent = 124 + choice % 6;
  switch (operands) {
    case OperandClass::kWide:
      exponent = choice % 2 == 0 ? 97 + choice / 2 % 60 : choice / 2 % 255;
      break;
    case OperandClass::kSubnormal:
      exponent = 100 + choice % 30;
      break;
    case OperandClass::kSpecial:
      if (choice % 16 != 0) break;
      if (choice / 16 % 3 == 0) return sign;
      return sign | 0x7f800000u | (choice / 16 % 3 == 1 ? 0 : fraction);
    case OperandClass::kLarge:
      exponent = choice % 2 == 0 ? 140 + choice / 2 % 20 : 235 + choice / 2 % 20;
      break;
    case OperandClass::kSparse:
      return choice % 2 == 0 ? sign : sign | exponent << 23;
    case OperandClass::kAnyBits:
      return choice;
    default:
      break;
  }
  return sign | exponent << 23 | fraction;
}

// Returns the number that a result adds to its block's hash: sums of these do not depend on the
// order of threads.
GEMMD_DEVICE std::uint64_t HashTerm(std::uint64_t position, std::uint32_t word) {
  return Mix(word ^ Mix(position));
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
