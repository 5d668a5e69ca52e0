// Single wgmma.m64nNk32 on 8-bit operands in shared memory, one a warpgroup, at random. Operands
// are not swizzled.
#pragma once

#include <type_traits>

#include "kernels/ptx/wgmma_bytes.h"
#include "tests/kernels/conformance/wgmma_vectors.h"

namespace gemmd::conformance {
inline namespace GEMMD_BACKEND {

template <ptx::ByteType kType>
GEMMD_DEVICE std::uint32_t RandomByte(OperandClass operands, bool is_b, std::uint32_t random) {
  if constexpr (!ptx::IsInteger(kType)) {
    return RandomFp8(kType == ptx::ByteType::kE4m3, operands, is_b, random);
  }
  // The largest and smallest numbers, zeros, and any.
  if (operands == OperandClass::kLarge) return (random & 1) != 0 ? 0x80 : 0xff;
  if (operands == OperandClass::kSparse && random % 2 == 0) return 0;
  return random >> 8 & 0xff;
}

// Rows of 32 elements from `base`, as FillOperand() lays out 16 halves.
template <ptx::ByteType kType>
GEMMD_DEVICE void FillByteOperand(ptx::SharedAddress base, std::uint32_t rows,
                                  OperandClass operands, bool is_b, std::uint64_t key) {
  for (std::uint32_t i = ptx::ThreadIndex(); i < rows * 8; i += kWgmmaThreads) {
    const std::uint32_t row = i / 8;
    const std::uint32_t word = i % 8;
    const std::uint32_t offset = row / 8 * 256 + word / 4 * 128 + row % 8 * 16 + word % 4 * 4;
    std::uint32_t bytes = 0;
    for (std::uint32_t e = 0; e < 4; ++e) {
      const auto random = static_cast<std::uint32_t>(RandomBits(key, 4 * i + e));
      bytes |= RandomByte<kType>(operands, is_b, random) << (8 * e);
    }
    ptx::StoreShared(base + offset, bytes);
  }
}

template <ptx::ByteType kA, ptx::ByteType kB, int kColumns>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kWgmmaThreads, 1)
    WgmmaByteVectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  using Sum = std::conditional_t<ptx::IsInteger(kA), std::int32_t, float>;
  constexpr std::uint32_t kWords = WgmmaWords(kColumns);
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  const auto operands = static_cast<OperandClass>(block % kOperandClasses);
  const ptx::SharedAddress a = ptx::SharedBase();
  const ptx::SharedAddress b = a + 64 * 32;
  VectorSink sink(params, kWgmmaThreads, kWgmmaInstructions, kWords);
  for (std::uint32_t instruction = 0; instruction < kWgmmaInstructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    FillByteOperand<kA>(a, 64, operands, false, Mix(key + 1));
    FillByteOperand<kB>(b, kColumns, operands, true, Mix(key + 2));
    ptx::FenceProxyAsync();
    ptx::SyncThreads();
    const std::uint32_t first = ptx::ThreadIndex() * (kWords + 4);
    Sum d[kWords];
    for (std::uint32_t i = 0; i < kWords; ++i) {
      const std::uint64_t random = RandomBits(key, first + i);
      if constexpr (ptx::IsInteger(kA)) {
        d[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(random));
      } else {
        d[i] = ptx::FloatOfBits(RandomAddend(operands, random));
      }
    }
    ptx::WgmmaFence();
    ptx::WgmmaBytes<kA, kB, kColumns>(d, ptx::MakeWgmmaDescriptor(a, 128, 256, ptx::Swizzle::kNone),
                                      ptx::MakeWgmmaDescriptor(b, 128, 256, ptx::Swizzle::kNone),
                                      true);
    ptx::WgmmaCommit();
    ptx::WgmmaWait<0>();
    for (std::uint32_t i = 0; i < kWords; ++i) {
      if constexpr (ptx::IsInteger(kA)) {
        sink.Add(instruction, i, static_cast<std::uint32_t>(d[i]));
      } else {
        sink.Add(instruction, i, ptx::BitsOfFloat(d[i]));
      }
    }
    ptx::SyncThreads();
  }
  sink.Finish();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
