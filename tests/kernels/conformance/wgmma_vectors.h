// Single wgmma.m64nNk16, one a warpgroup, on random operands: B in shared memory, A there or in
// registers. Operands are K-major and not swizzled; tests/kernels/ptx has the other layouts.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/wgmma.h"
#include "tests/kernels/conformance/mma_vectors.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kWgmmaInstructions = 16;  // a block
inline constexpr std::uint32_t kWgmmaThreads = 128;

// A of 64 x 16 and B of N x 16 halves.
constexpr std::uint32_t WgmmaSharedBytes(int columns) {
  return (64 + static_cast<std::uint32_t>(columns)) * 32;
}
constexpr std::uint32_t WgmmaWords(int columns) { return static_cast<std::uint32_t>(columns / 2); }

inline namespace GEMMD_BACKEND {

// Rows of 16 halves from `base`, as core matrices: 8 rows of 16 bytes, the two of a row 128 bytes
// apart, the next 8 rows 256.
template <bool kIsBf16>
GEMMD_DEVICE void FillOperand(ptx::SharedAddress base, std::uint32_t rows, OperandClass operands,
                              bool is_b, std::uint64_t key) {
  for (std::uint32_t i = ptx::ThreadIndex(); i < rows * 8; i += kWgmmaThreads) {
    const std::uint32_t row = i / 8;
    const std::uint32_t word = i % 8;
    const std::uint32_t offset = row / 8 * 256 + word / 4 * 128 + row % 8 * 16 + word % 4 * 4;
    ptx::StoreShared(base + offset, RandomPair(kIsBf16, operands, is_b, RandomBits(key, i)));
  }
}

template <Form kForm, int kColumns, bool kARegisters>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kWgmmaThreads, 1)
    WgmmaVectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  constexpr bool kIsBf16 = kForm == Form::kBf16ToF32;
  constexpr auto kType = kIsBf16 ? ptx::WgmmaType::kBf16 : ptx::WgmmaType::kF16;
  constexpr std::uint32_t kWords = WgmmaWords(kColumns);
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  const auto operands = static_cast<OperandClass>(block % kOperandClasses);
  const ptx::SharedAddress a = ptx::SharedBase();
  const ptx::SharedAddress b = a + 64 * 32;
  VectorSink sink(params, kWgmmaThreads, kWgmmaInstructions, kWords);
  for (std::uint32_t instruction = 0; instruction < kWgmmaInstructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    FillOperand<kIsBf16>(a, 64, operands, false, Mix(key + 1));
    FillOperand<kIsBf16>(b, kColumns, operands, true, Mix(key + 2));
    ptx::FenceProxyAsync();
    ptx::SyncThreads();
    const std::uint64_t a_descriptor = ptx::MakeWgmmaDescriptor(a, 128, 256, ptx::Swizzle::kNone);
    const std::uint64_t b_descriptor = ptx::MakeWgmmaDescriptor(b, 128, 256, ptx::Swizzle::kNone);
    const std::uint32_t first = ptx::ThreadIndex() * (kWords + 4);
    std::uint32_t fragment[4] = {};
    if constexpr (kARegisters) {
      for (std::uint32_t i = 0; i < 4; ++i) {
        fragment[i] = RandomPair(kIsBf16, operands, false, RandomBits(key, first + kWords + i));
      }
    }
    float d[kWords];
    for (std::uint32_t i = 0; i < kWords; ++i) {
      d[i] = ptx::FloatOfBits(RandomAddend(operands, RandomBits(key, first + i)));
    }
    ptx::WgmmaFence();
    if constexpr (kARegisters) {
      ptx::WgmmaRegisters<kType, kColumns>(d, fragment, b_descriptor, true);
    } else {
      ptx::Wgmma<kType, kColumns>(d, a_descriptor, b_descriptor, true);
    }
    ptx::WgmmaCommit();
    ptx::WgmmaWait<0>();
    for (std::uint32_t i = 0; i < kWords; ++i) {
      sink.Add(instruction, i, ptx::BitsOfFloat(d[i]));
    }
    ptx::SyncThreads();
  }
  sink.Finish();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
