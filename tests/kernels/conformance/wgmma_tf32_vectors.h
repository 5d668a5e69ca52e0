// Single wgmma.m64nNk8 on tf32 operands in shared memory, one a warpgroup, at random. Operands are
// K-major and not swizzled.
#pragma once

#include "tests/kernels/conformance/wgmma_vectors.h"

namespace gemmd::conformance {
inline namespace GEMMD_BACKEND {

// A binary32 factor; the lowest 13 bits are random too, and must not matter.
GEMMD_DEVICE std::uint32_t RandomTf32(OperandClass operands, bool is_b, std::uint64_t random) {
  const std::uint32_t high = RandomHalf(true, operands, is_b, static_cast<std::uint32_t>(random))
                             << 16;
  const auto low = static_cast<std::uint32_t>(random >> 48);
  const bool is_special = operands == OperandClass::kSpecial || operands == OperandClass::kSparse;
  return is_special ? high : high | low;
}

// Rows of 8 numbers from `base`, as FillOperand() lays out 16 halves.
GEMMD_DEVICE void FillTf32Operand(ptx::SharedAddress base, std::uint32_t rows,
                                  OperandClass operands, bool is_b, std::uint64_t key) {
  for (std::uint32_t i = ptx::ThreadIndex(); i < rows * 8; i += kWgmmaThreads) {
    const std::uint32_t row = i / 8;
    const std::uint32_t word = i % 8;
    const std::uint32_t offset = row / 8 * 256 + word / 4 * 128 + row % 8 * 16 + word % 4 * 4;
    ptx::StoreShared(base + offset, RandomTf32(operands, is_b, RandomBits(key, i)));
  }
}

template <int kColumns>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kWgmmaThreads, 1)
    WgmmaTf32Vectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  constexpr std::uint32_t kWords = WgmmaWords(kColumns);
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  const auto operands = static_cast<OperandClass>(block % kOperandClasses);
  const ptx::SharedAddress a = ptx::SharedBase();
  const ptx::SharedAddress b = a + 64 * 32;
  VectorSink sink(params, kWgmmaThreads, kWgmmaInstructions, kWords);
  for (std::uint32_t instruction = 0; instruction < kWgmmaInstructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    FillTf32Operand(a, 64, operands, false, Mix(key + 1));
    FillTf32Operand(b, kColumns, operands, true, Mix(key + 2));
    ptx::FenceProxyAsync();
    ptx::SyncThreads();
    const std::uint32_t first = ptx::ThreadIndex() * (kWords + 4);
    float d[kWords];
    for (std::uint32_t i = 0; i < kWords; ++i) {
      d[i] = ptx::FloatOfBits(RandomAddend(operands, RandomBits(key, first + i)));
    }
    ptx::WgmmaFence();
    ptx::Wgmma<ptx::WgmmaType::kTf32, kColumns>(
        d, ptx::MakeWgmmaDescriptor(a, 128, 256, ptx::Swizzle::kNone),
        ptx::MakeWgmmaDescriptor(b, 128, 256, ptx::Swizzle::kNone), true);
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
