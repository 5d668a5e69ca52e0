// The values that cuTensorMapEncodeTiled puts into a tensor map, as plain fields.
#pragma once

#include <cstdint>

namespace gemmd::emulator {

constexpr int kMaxTensorRank = 4;

// The modes of PTX ISA, "Tensors: swizzling modes": the value is the span in bytes.
enum class Swizzle : std::uint32_t { kNone = 0, k32B = 32, k64B = 64, k128B = 128 };

enum class TensorElement : std::uint32_t { kU8, kF16, kBf16, kF32, kU32, kTf32 };

constexpr std::uint32_t ElementBytes(TensorElement element) {
  switch (element) {
    case TensorElement::kU8:
      return 1;
    case TensorElement::kF16:
    case TensorElement::kBf16:
      return 2;
    default:
      return 4;
  }
}

// A tensor of `rank` dimensions, the first running fastest, and the box of it that one
// copy moves.
struct TensorMap {
  const void* base = nullptr;
  std::uint64_t size[kMaxTensorRank] = {1, 1, 1, 1};
  std::uint64_t stride_bytes[kMaxTensorRank] = {0, 0, 0, 0};  // of [0]: the element
  std::uint32_t box[kMaxTensorRank] = {1, 1, 1, 1};
  std::uint32_t rank = 0;
  TensorElement element = TensorElement::kU8;
  Swizzle swizzle = Swizzle::kNone;
};

}  // namespace gemmd::emulator
