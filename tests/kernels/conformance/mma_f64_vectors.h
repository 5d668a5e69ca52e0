// Single mma.sync on f64 operands, one a warp, at random.
#pragma once

#include <cstring>

#include "kernels/ptx/mma_sync_f64.h"
#include "tests/kernels/conformance/mma_vectors.h"

namespace gemmd::conformance {

inline namespace GEMMD_BACKEND {

// The bits of a binary64.
GEMMD_DEVICE std::uint64_t RandomF64(OperandClass operands, std::uint64_t random) {
  const std::uint64_t sign = random & 0x8000000000000000u;
  const std::uint64_t fraction = random & 0x000fffffffffffffu;
  const std::uint64_t choice = Mix(random) >> 20;
  std::uint64_t exponent = 1020 + choice % 6;
  switch (operands) {
    case OperandClass::kWide:
      exponent = choice % 2 == 0 ? 990 + choice / 2 % 66 : choice / 2 % 2047;
      break;
    case OperandClass::kSubnormal:
      exponent = choice % 2 == 0 ? choice / 2 % 3 : 1010 + choice / 2 % 30;
      break;
    case OperandClass::kSpecial:
      if (choice % 16 != 0) break;
      if (choice / 16 % 3 == 0) return sign;
      return sign | 0x7ff0000000000000u | (choice / 16 % 3 == 1 ? 0 : fraction);
    case OperandClass::kLarge:
      exponent = 1530 + choice % 10;
      break;
    case OperandClass::kSparse:
      return choice % 2 == 0 ? sign : sign | exponent << 52;
    case OperandClass::kAnyBits:
      return random;
    default:
      break;
  }
  return sign | exponent << 52 | fraction;
}

GEMMD_DEVICE double F64OfBits(std::uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

GEMMD_DEVICE void AddF64(std::uint32_t instruction, std::uint32_t i, double value,
                         VectorSink* sink) {
  std::uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  sink->Add(instruction, 2 * i, static_cast<std::uint32_t>(bits));
  sink->Add(instruction, 2 * i + 1, static_cast<std::uint32_t>(bits >> 32));
}

// m16n8kK, one a warp.
template <int kK>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    MmaF64Rows16Vectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  if constexpr (ptx::kHasBulkCopies) {
    const std::uint32_t block = params.first_block + ptx::BlockIndexX();
    const auto operands = static_cast<OperandClass>(block % kOperandClasses);
    VectorSink sink(params, 32, kMmaInstructions, 8);
    for (std::uint32_t instruction = 0; instruction < kMmaInstructions; ++instruction) {
      const std::uint64_t key = KeyOf(params.set, block, instruction);
      std::uint32_t next = ptx::ThreadIndex() * 16;
      double a[kK / 2];
      double b[kK / 4];
      double d[4];
      for (double& x : a) x = F64OfBits(RandomF64(operands, RandomBits(key, next++)));
      for (double& x : b) x = F64OfBits(RandomF64(operands, RandomBits(key, next++)));
      for (double& x : d) x = F64OfBits(RandomF64(operands, RandomBits(key, next++)));
      ptx::MmaF64Rows16<kK>(d, a, b);
      for (std::uint32_t i = 0; i < 4; ++i) AddF64(instruction, i, d[i], &sink);
    }
    sink.Finish();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
