// From packed codes to fragments in registers. Integers are exact in f16 and bf16: sums of 128 of K
// are of integers, and their scales multiply the sums. E2M1 times E8M0 is exact in bf16: sums are
// one chain over K, as of a product of bf16.
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
// strip. kIsChain: sums are not scaled, and run on from one group to the next.
template <class Rows_, ZeroKind kZero_>
struct Int4Decoder {
  using Rows = Rows_;
  static constexpr bool kIsChain = false;
  static constexpr int kScaleBytes = ScaleBytes(CodeFormat::kInteger);
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

  // The fragment of a step of the group.
  template <bool kLarge = false>
  GEMMD_DEVICE void Decode(std::uint32_t word, int /*step*/, std::uint32_t (&fragment)[4]) const {
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t codes =
          ptx::MaskAndSet(word >> (4 * j), 0x000f000f, Rows::kUnitBits * kBoth);
      fragment[j] = Rows::Subtract(codes, j % 2 == 0 ? zero_low : zero_high);
    }
  }
};

// A word's eight E2M1 codes times 2^-126: a bf16 number's exponent of 0 makes it subnormal.
GEMMD_DEVICE void PlaceE2m1(std::uint32_t word, std::uint32_t (&values)[4]) {
  constexpr std::uint32_t kAll = 0x81c081c0;
  constexpr std::uint32_t kLowest = 0x00400040;
  values[0] = word & kAll;
  values[1] = ptx::RotateLeft(word, kE2m1Rotation<1, 3>) & kAll;
  values[2] = ptx::RotateLeft(word, kE2m1Rotation<2, 3>) & kAll;
  const std::uint32_t lowest = ptx::RotateLeft(word, kE2m1Rotation<3, 0>) & kLowest;
  values[3] = ptx::MaskAndSet(ptx::RotateLeft(word, kE2m1Rotation<3, 3>), kAll & ~kLowest, lowest);
}

struct Mxfp4Decoder {
  using Rows = Bf16Rows;
  static constexpr bool kIsChain = true;
  static constexpr bool kHasZeros = false;
  static constexpr int kScaleBytes = ScaleBytes(CodeFormat::kE2m1);
  static constexpr float kSumFactor = 4;  // of sums of what Decode() gives

  std::uint32_t scales[2];  // of each line, in ascending K

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*zeros_at*/) {
    const auto pair = ptx::LoadShared<ScalePair>(scales_at);
    scales[0] = pair.word[0];
    scales[1] = pair.word[1];
  }

  // Returns whether a scale is 2 or more: seldom of weights, so that Decode<true>() may be slow.
  GEMMD_DEVICE bool HasLarge() const { return ((scales[0] | scales[1]) & 0x80808080) != 0; }

  // A quarter of the values, each exact: the largest would be infinite in bf16. Placed codes are
  // 2^126 times too small, so that factors are 2^124 scales; large ones come as two factors.
  template <bool kLarge>
  GEMMD_DEVICE void Decode(std::uint32_t word, int step, std::uint32_t (&fragment)[4]) const {
    PlaceE2m1(word, fragment);
    const std::uint32_t factors[2] = {Factor<kLarge>(scales[0], step / 2),
                                      Factor<kLarge>(scales[1], step / 2)};
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      constexpr std::uint32_t kTwoTo124 = 0x7d807d80;
      if constexpr (kLarge) fragment[j] = ptx::MultiplyBf16(fragment[j], kTwoTo124);
      fragment[j] = ptx::MultiplyBf16(fragment[j], factors[j % 2]);
    }
  }

 private:
  struct alignas(8) ScalePair {
    std::uint32_t word[2];
  };
  // A byte is bf16's exponent, but for 0, which is 2^-127: a subnormal number. Those below 128 may
  // be 2^124 times as large.
  template <bool kLarge>
  static GEMMD_DEVICE std::uint32_t Factor(std::uint32_t scales_of_line, int nth) {
    const std::uint32_t exponents = ptx::ByteInHalves(scales_of_line, nth) * 128;
    return kLarge ? ptx::MaxOfHalves(exponents, 0x00400040) : exponents + 124 * 0x00800080;
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
