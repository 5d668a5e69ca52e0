// ldmatrix and stmatrix at random rows of shared memory.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/shared_memory.h"
#include "tests/kernels/conformance/vector_sink.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kMatrixInstructions = 8;  // of each kind, a block
inline constexpr std::uint32_t kMatrixRows = 128;        // of 16 bytes
inline constexpr std::uint32_t kMatrixSharedBytes = kMatrixRows * 16;
// Words a lane: 4 + 4 + 2 + 2 loaded, then a block's rows after either store. The two are what
// ldmatrix.x2, which no kernel uses, gave when this was recorded: the first two of x4's registers,
// in its place since.
inline constexpr std::uint32_t kMatrixWords = 12 + 2 * 16;

inline namespace GEMMD_BACKEND {

GEMMD_DEVICE void FillRows(std::uint64_t key) {
  for (std::uint32_t i = ptx::ThreadIndex(); i < kMatrixRows * 4; i += 32) {
    ptx::StoreShared(ptx::SharedBase() + 4 * i, static_cast<std::uint32_t>(RandomBits(key, i)));
  }
  ptx::SyncThreads();
}

// Adds what a store left, 16 words a lane from `first` on.
GEMMD_DEVICE void AddRows(std::uint32_t instruction, std::uint32_t first, VectorSink* sink) {
  ptx::SyncThreads();
  for (std::uint32_t i = 0; i < 16; ++i) {
    const std::uint32_t word = i * 32 + ptx::ThreadIndex();
    sink->Add(instruction, first + i, ptx::LoadShared<std::uint32_t>(ptx::SharedBase() + 4 * word));
  }
  ptx::SyncThreads();
}

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    MatrixMemoryVectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  const std::uint32_t lane = ptx::ThreadIndex();
  VectorSink sink(params, 32, kMatrixInstructions, kMatrixWords);
  for (std::uint32_t instruction = 0; instruction < kMatrixInstructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    FillRows(key);
    // Loads: any rows, the same one for several lanes too.
    const auto random = static_cast<std::uint32_t>(RandomBits(key, 1000 + lane));
    const ptx::SharedAddress any = ptx::SharedBase() + random % kMatrixRows * 16;
    std::uint32_t four[4];
    ptx::LoadMatrix4(four, any);
    for (std::uint32_t i = 0; i < 4; ++i) sink.Add(instruction, i, four[i]);
    for (std::uint32_t i = 0; i < 2; ++i) sink.Add(instruction, 8 + i, four[i]);
    ptx::LoadMatrix4Transposed(four, any);
    for (std::uint32_t i = 0; i < 4; ++i) sink.Add(instruction, 4 + i, four[i]);
    for (std::uint32_t i = 0; i < 2; ++i) sink.Add(instruction, 10 + i, four[i]);
    ptx::SyncThreads();
    // Stores: a row of its own for each lane, because an odd factor permutes them.
    const auto permutation = static_cast<std::uint32_t>(RandomBits(key, 2000));
    const std::uint32_t row = (lane * (permutation | 1) + (permutation >> 16)) % kMatrixRows;
    const ptx::SharedAddress own = ptx::SharedBase() + row * 16;
    for (std::uint32_t i = 0; i < 4; ++i) {
      four[i] = static_cast<std::uint32_t>(RandomBits(key, 3000 + 4 * lane + i));
    }
    ptx::StoreMatrix4(own, four);
    AddRows(instruction, 12, &sink);
    const std::uint32_t two[2] = {four[2], four[1]};
    ptx::StoreMatrix2(own, two);
    AddRows(instruction, 28, &sink);
  }
  sink.Finish();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
