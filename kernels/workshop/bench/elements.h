// Random elements of operands, each from its index and a seed alone: a kernel fills planes with
// them where they are used, and the host computes again those that a check needs.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/numbers/types.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/platform.h"

namespace gemmd::bench {
inline namespace GEMMD_BACKEND {

// The finalizer of splitmix64: every bit of the result depends on every bit of x.
GEMMD_DEVICE std::uint64_t MixBits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Nearly normal, mean 0 and deviation 1: the sum of eight uniform numbers. An integer times a
// constant, rounded once, so that every machine has the same bits.
GEMMD_DEVICE float NormalElement(std::uint64_t seed, std::uint64_t index) {
  std::int32_t sum = -4 * 65535;
  for (std::uint64_t half = 0; half < 2; ++half) {
    const std::uint64_t bits = MixBits(seed ^ MixBits(2 * index + half));
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<std::int32_t>((bits >> (16 * part)) & 0xffff);
    }
  }
  return static_cast<float>(sum) * 1.8688e-5f;  // 1 / (65536 * sqrt(8 / 12))
}

// Four 8-bit elements: int8 of about 40 times a normal number; fp8 of both signs between 2^-3 and
// 2^2 in magnitude.
GEMMD_DEVICE std::uint32_t ByteElements(DataType type, std::uint64_t seed, std::uint64_t first) {
  std::uint32_t word = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t byte = 0;
    if (type == DataType::kInt8) {
      const float value = NormalElement(seed, first + i) * 36;
      byte = static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) & 0xff;
    } else {
      const auto bits = static_cast<std::uint32_t>(MixBits(seed ^ MixBits(first + i)));
      const bool is_e4m3 = type == DataType::kFp8E4M3;
      const std::uint32_t fraction = is_e4m3 ? 3 : 2;
      const std::uint32_t exponent = (is_e4m3 ? 4 : 12) + ((bits >> 8) & 3);
      byte = (bits & 0x80) | (exponent << fraction) | (bits & ((1u << fraction) - 1));
    }
    word |= byte << (8 * i);
  }
  return word;
}

// Four E8M0 scales: powers of two from 2^-2 to 2.
GEMMD_DEVICE std::uint32_t RandomScales(std::uint64_t seed, std::uint64_t first) {
  std::uint32_t word = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto bits = static_cast<std::uint32_t>(MixBits(seed ^ MixBits(first + i)));
    word |= (125 + (bits & 3)) << (8 * i);
  }
  return word;
}

// The word-th 32 bits of a plane. REQUIRES: a type of 8, 16, 32 or 64 bits that operands have, or
// that of E8M0 scales.
GEMMD_DEVICE std::uint32_t RandomWord(DataType type, std::uint64_t seed, std::uint64_t word) {
  switch (type) {
    case DataType::kF16:
      return ptx::PackF16(NormalElement(seed, 2 * word), NormalElement(seed, 2 * word + 1));
    case DataType::kBf16:
      return ptx::PackBf16(NormalElement(seed, 2 * word), NormalElement(seed, 2 * word + 1));
    case DataType::kF64: {
      const double value = NormalElement(seed, word / 2);
      std::uint64_t bits;
      memcpy(&bits, &value, sizeof bits);
      return static_cast<std::uint32_t>(word % 2 == 0 ? bits : bits >> 32);
    }
    case DataType::kInt8:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
      return ByteElements(type, seed, 4 * word);
    case DataType::kE8M0:
      return RandomScales(seed, 4 * word);
    default:
      return ptx::BitsOfFloat(NormalElement(seed, word));
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::bench
