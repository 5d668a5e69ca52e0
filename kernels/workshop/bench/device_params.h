// The parameters of the benchmark's own kernels: plain values that host code fills.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"

namespace gemmd::bench {

// Fills 16-byte units with RandomWord() of `type`.
struct FillWork {
  void* data = nullptr;  // aligned to 16 bytes
  std::uint64_t units = 0;
  std::uint64_t seed = 0;
  DataType type = DataType::kF32;
};

// Compares rows x columns elements of two planes, a line every `pitch` elements.
struct CompareWork {
  const void* d = nullptr;
  const void* reference = nullptr;
  std::int64_t lines = 0;
  std::int64_t columns = 0;
  std::int64_t pitch = 0;
  float limit = 0;
  DataType type = DataType::kF32;  // f64, f32, f16, bf16 or int32
  // For each of kCompareThreads threads, how many elements differ by more than the limit or are
  // NaN, and the bits of the largest difference as an f32.
  std::uint32_t* different = nullptr;
  std::uint32_t* largest = nullptr;
};
inline constexpr std::uint32_t kCompareBlocks = 264;
inline constexpr std::uint32_t kCompareThreads = kCompareBlocks * 256;

// Reads 16-byte units, four in flight a thread.
struct ReadWork {
  const void* data = nullptr;
  std::uint64_t units = 0;
  std::uint32_t blocks = 0;
  std::uint32_t* sink = nullptr;  // one word, written never in practice
};

// Multiplies random fragments over and over.
struct TensorWork {
  const void* data = nullptr;  // kTensorWorkBytes of random elements
  std::uint32_t* sink = nullptr;
  std::uint32_t steps = 0;
  std::uint32_t blocks = 0;
  bool is_bf16 = false;
};
inline constexpr std::uint32_t kTensorWorkBytes = 48 * 1024;

// Floating-point operations of one block and step.
inline constexpr double kMmaFlopsPerStep = 8.0 * 8 * 2 * 16 * 8 * 16;      // 8 warps, 8 sums each
inline constexpr double kWgmmaFlopsPerStep = 2.0 * 4 * 2 * 64 * 256 * 16;  // 2 warpgroups, K of 64

}  // namespace gemmd::bench
