// Single TMA copies: what tensor_copy_test computes and record_vectors measures.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "tests/kernels/ptx/tensor_copy_probe.h"

namespace gemmd::testing {

// A tensor of 40 rows of 272 bytes, of which `columns` elements belong to it; boxes of
// 24 rows; copied from (load_x, load_y), and where it stores back to (store_x, store_y).
struct TensorCopyCase {
  const char* name;
  ptx::TensorElement element;
  ptx::Swizzle swizzle;
  std::uint32_t columns;
  std::uint32_t box_columns;
  std::int32_t load_x;
  std::int32_t load_y;
  bool stores;
  std::int32_t store_x;
  std::int32_t store_y;
};

inline constexpr std::uint32_t kTensorRows = 40;
inline constexpr std::uint32_t kTensorPitch = 272;
inline constexpr std::uint32_t kTensorBoxRows = 24;

inline constexpr auto kBf16 = ptx::TensorElement::kBf16;

inline constexpr TensorCopyCase kTensorCopies[] = {
    {"tma_load_none", kBf16, ptx::Swizzle::kNone, 136, 72, 16, 4, false, 0, 0},
    {"tma_load_32b", kBf16, ptx::Swizzle::k32B, 136, 16, 8, 4, false, 0, 0},
    {"tma_load_64b", kBf16, ptx::Swizzle::k64B, 136, 32, 16, 4, false, 0, 0},
    {"tma_load_128b", kBf16, ptx::Swizzle::k128B, 136, 64, 16, 4, false, 0, 0},
    {"tma_load_before_the_start", kBf16, ptx::Swizzle::k128B, 136, 64, -8, -3, false, 0, 0},
    {"tma_load_past_the_end", kBf16, ptx::Swizzle::k128B, 136, 64, 104, 25, false, 0, 0},
    {"tma_load_wholly_outside", kBf16, ptx::Swizzle::kNone, 136, 72, 304, 60, false, 0, 0},
    {"tma_load_ragged", kBf16, ptx::Swizzle::k128B, 133, 64, 96, 4, false, 0, 0},
    {"tma_store_inside", kBf16, ptx::Swizzle::k128B, 136, 64, 16, 4, true, 24, 7},
    {"tma_store_past_the_end", kBf16, ptx::Swizzle::k128B, 136, 64, 16, 4, true, 104, 28},
    {"tma_store_outside_in_x", kBf16, ptx::Swizzle::k128B, 136, 64, 16, 4, true, 304, 4},
    {"tma_store_outside_in_y", kBf16, ptx::Swizzle::k128B, 136, 64, 16, 4, true, 16, 60},
    {"tma_store_clips_16_bytes", kBf16, ptx::Swizzle::k128B, 132, 64, 16, 4, true, 96, 28},
    {"tma_store_clips_unswizzled", kBf16, ptx::Swizzle::kNone, 133, 64, 16, 4, true, 96, 28},
};

// The tensor's bytes: numbers of the element's type, the same for each (type, seed).
inline std::vector<std::uint8_t> TensorBytes(ptx::TensorElement element, std::uint32_t seed) {
  std::vector<std::uint8_t> bytes(kTensorRows * kTensorPitch);
  std::mt19937 generator(seed);
  const std::uint32_t width = ptx::TensorElementBytes(element);
  for (std::size_t i = 0; i < bytes.size(); i += width) {
    const std::uint32_t random = generator();
    const float number = static_cast<float>(static_cast<int>(random % 4001) - 2000) / 37;
    if (width == 2) {
      const std::uint16_t half = emulator::Narrow(
          element == kBf16 ? emulator::HalfFormat::kBf16 : emulator::HalfFormat::kF16, number);
      std::memcpy(&bytes[i], &half, sizeof half);
    } else if (element == ptx::TensorElement::kF32) {
      std::memcpy(&bytes[i], &number, sizeof number);
    } else {
      std::memcpy(&bytes[i], &random, sizeof random);
    }
  }
  return bytes;
}

inline std::uint32_t TensorBoxBytes(const TensorCopyCase& test) {
  return test.box_columns * kTensorBoxRows * ptx::TensorElementBytes(test.element);
}

inline ptx::TensorMap TensorCopyMap(const TensorCopyCase& test, const void* base) {
  ptx::TensorMapSpec spec;
  spec.base = base;
  spec.element = test.element;
  spec.size[0] = test.columns;
  spec.size[1] = kTensorRows;
  spec.stride_bytes[1] = kTensorPitch;
  spec.box[0] = test.box_columns;
  spec.box[1] = kTensorBoxRows;
  spec.swizzle = test.swizzle;
  return ptx::MakeTensorMap(spec).value();
}

inline ptx::TensorCopyProbeParams TensorCopyParams(const TensorCopyCase& test, const void* in,
                                                   void* out, void* dump) {
  return {TensorCopyMap(test, in),
          TensorCopyMap(test, out),
          static_cast<std::uint32_t*>(dump),
          TensorBoxBytes(test),
          test.load_x,
          test.load_y,
          test.store_x,
          test.store_y,
          test.stores};
}

}  // namespace gemmd::testing
