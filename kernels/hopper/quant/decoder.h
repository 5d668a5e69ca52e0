// From packed codes to fragments in registers. A format's sums of 128 of K are of integers, exact
// in f16 and bf16; its scales multiply the sums.
#pragma once

#include "kernels/hopper/quant/packed.h"
#include "kernels/ptx/bits.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/half_arithmetic.h"
#include "kernels/ptx/mma_sync.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tensor_map.h"
#include "kernels/ptx/wgmma.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// The types of A. kUnitBits is a power of two of which the last bit of the fraction is 1, or less,
// so that a code or-ed into the fraction is added to it.
struct Bf16Rows {
  static constexpr ptx::WgmmaType kType = ptx::WgmmaType::kBf16;
  static constexpr ptx::TensorElement kElement = ptx::TensorElement::kBf16;
  static constexpr std::uint32_t kUnitBits = 0x4300;  // 128
  static GEMMD_DEVICE std::uint32_t Subtract(std::uint32_t a, std::uint32_t b) {
    return ptx::SubtractBf16(a, b);
  }
  static GEMMD_DEVICE void Multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
    ptx::MmaBf16(d, a, b);
  }
};
struct F16Rows {
  static constexpr ptx::WgmmaType kType = ptx::WgmmaType::kF16;
  static constexpr ptx::TensorElement kElement = ptx::TensorElement::kF16;
  static constexpr std::uint32_t kUnitBits = 0x6400;  // 1024
  static GEMMD_DEVICE std::uint32_t Subtract(std::uint32_t a, std::uint32_t b) {
    return ptx::SubtractF16(a, b);
  }
  static GEMMD_DEVICE void Multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
    ptx::MmaF16(d, a, b);
  }
};

// A unit's scales and zero points as a lane needs them: of lines `pair` and `pair` + 8 of the
// strip.
template <class Rows_, ZeroKind kZero_>
struct Int4Decoder {
  using Rows = Rows_;
  static constexpr ZeroKind kZero = kZero_;
  static constexpr bool kHasZeros = kZero == ZeroKind::kPlane;
  static constexpr std::uint32_t kBoth = 0x00010001;

  std::uint32_t scales;
  std::uint32_t zero_low;
  std::uint32_t zero_high;

  // The pair's places in the pieces of scales and of zero points.
  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress zeros_at) {
    scales = ptx::LoadShared<std::uint32_t>(scales_at);
    if constexpr (kHasZeros) {
      const std::uint32_t zeros = ptx::LoadShared<std::uint16_t>(zeros_at);
      zero_low = (zeros & 0xff) * kBoth + Rows::kUnitBits * kBoth;
      zero_high = (zeros >> 8) * kBoth + Rows::kUnitBits * kBoth;
    } else {
      zero_low = (Rows::kUnitBits + (kZero == ZeroKind::kEight ? 8 : 0)) * kBoth;
      zero_high = zero_low;
    }
  }

  // The fragment of one step.
  GEMMD_DEVICE void Decode(std::uint32_t word, std::uint32_t (&fragment)[4]) const {
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t codes =
          ptx::MaskAndSet(word >> (4 * j), 0x000f000f, Rows::kUnitBits * kBoth);
      fragment[j] = Rows::Subtract(codes, j % 2 == 0 ? zero_low : zero_high);
    }
  }
};

// One of a pair's scales: of line `pair`, or of that eight below.
GEMMD_DEVICE float ScaleOf(std::uint32_t scales, std::uint32_t side) {
  return ptx::WidenF16(static_cast<std::uint16_t>(scales >> (16 * side)));
}

// The word of step w of four.
GEMMD_DEVICE std::uint32_t WordOf(const ptx::Vector4& words, int w) {
  return w == 0 ? words.x : w == 1 ? words.y : w == 2 ? words.z : words.w;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
