// From packed codes to fragments in registers. Integers and E4M3 are exact in f16 and bf16: sums
// are of codes, of as much of K as a scale is for, and their scales multiply the sums. E2M1 times
// E8M0 or E4M3 is exact in bf16: sums are one chain over K, as of a product of bf16.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/hopper/quant/packed.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/bits.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/half_arithmetic.h"
#include "kernels/ptx/indices.h"
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
  static constexpr std::uint32_t kOneBits = 0x3f80;
  static constexpr std::uint32_t kMinus128Bits = 0xc300;
  static constexpr bool kHoldsE5m2 = false;  // infinity and NaN at their places
  static GEMMD_DEVICE std::uint32_t Subtract(std::uint32_t a, std::uint32_t b) {
    return ptx::SubtractBf16(a, b);
  }
  // From floats of few bits and that bias, at their places in bf16: 2^(127 - bias) too small.
  template <int kBias>
  static GEMMD_DEVICE std::uint32_t FromPlaced(std::uint32_t placed) {
    return ptx::MultiplyBf16(placed, (254 - kBias) * 0x00800080u);
  }
  // From the E5M2 codes in the upper (1) or lower (0) bytes of a word's halves. kAny: infinity and
  // NaN too, where one more in the exponent carries: then the bits above it are to be set too.
  template <bool kAny>
  static GEMMD_DEVICE std::uint32_t FromE5m2(std::uint32_t word, int upper) {
    const std::uint32_t signs = (upper == 1 ? word : word << 8) & 0x80008000;
    std::uint32_t placed = ptx::MaskAndSet(upper == 1 ? word >> 3 : word << 5, 0x0fe00fe0, signs);
    if constexpr (kAny) placed += ((placed + 0x00800080) & 0x10001000) * 7;
    return FromPlaced<15>(placed);
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
  static constexpr std::uint32_t kOneBits = 0x3c00;
  static constexpr std::uint32_t kMinus128Bits = 0xd800;
  static constexpr bool kHoldsE5m2 = true;
  static GEMMD_DEVICE std::uint32_t Subtract(std::uint32_t a, std::uint32_t b) {
    return ptx::SubtractF16(a, b);
  }
  template <int kBias>
  static GEMMD_DEVICE std::uint32_t FromPlaced(std::uint32_t placed) {
    const std::uint32_t sign = placed & 0x80008000;
    return ptx::MultiplyF16(ptx::MaskAndSet(placed << 3, 0x3f803f80, sign),
                            (30 - kBias) * 0x04000400u);
  }
  // E5M2 is f16's upper byte.
  template <bool kAny>
  static GEMMD_DEVICE std::uint32_t FromE5m2(std::uint32_t word, int upper) {
    return (upper == 1 ? word : word << 8) & 0xff00ff00;
  }
  static GEMMD_DEVICE void Multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
    ptx::MmaF16(d, a, b);
  }
};

// Loads what a lane has in shared memory, 16 bytes at a time.
template <class T>
GEMMD_DEVICE T LoadAll(ptx::SharedAddress from) {
  if constexpr (sizeof(T) <= 16) {
    return ptx::LoadShared<T>(from);
  } else {
    ptx::Vector4 vectors[sizeof(T) / 16];
    GEMMD_UNROLL
    for (int i = 0; i < static_cast<int>(sizeof(T) / 16); ++i) {
      vectors[i] = ptx::LoadShared<ptx::Vector4>(from + i * 16);
    }
    T value;
    memcpy(&value, vectors, sizeof value);
    return value;
  }
}

// The scales of a pair of lines, as they are packed: of one line those of a group's parts, and then
// of the other.
template <int kParts>
struct alignas(4 * kParts) HalfScales {  // f16 or bf16
  std::uint32_t word[kParts];
};
template <int kParts>
struct alignas(8) FloatScales {
  float of[2 * kParts];
};
struct alignas(8) ByteScales {  // E8M0, of four parts
  std::uint32_t word[2];        // of each line
};
// Sums that have got their scales.
struct NoScales {};

template <int kParts>
GEMMD_DEVICE float ScaleOf(const HalfScales<kParts>& scales, int side, int part, bool are_bf16) {
  const int nth = side * kParts + part;
  const std::uint32_t bits = scales.word[nth / 2] >> (16 * (nth % 2));
  return are_bf16 ? ptx::FloatOfBits(bits << 16) : ptx::WidenF16(static_cast<std::uint16_t>(bits));
}
template <int kParts>
GEMMD_DEVICE float ScaleOf(const FloatScales<kParts>& scales, int side, int part,
                           bool /*are_bf16*/) {
  return scales.of[side * kParts + part];
}
// A byte is f32's exponent, but for 0, which is 2^-127: a subnormal number; and 255, which is NaN.
GEMMD_DEVICE float ScaleOf(const ByteScales& scales, int side, int part, bool /*are_bf16*/) {
  const std::uint32_t bits = (scales.word[side] >> (8 * part) & 0xff) << 23;
  if (bits == 0x7f800000) return ptx::FloatOfBits(0x7fffffff);
  return ptx::FloatOfBits(bits > 0x00400000 ? bits : 0x00400000);
}
GEMMD_DEVICE float ScaleOf(const NoScales& /*scales*/, int /*side*/, int /*part*/,
                           bool /*are_bf16*/) {
  return 1;
}

GEMMD_DEVICE void SetNan(FloatScales<1>& scales, int side) {
  scales.of[side] = ptx::FloatOfBits(0x7fffffff);
}
GEMMD_DEVICE void SetNan(ByteScales& scales, int side) { scales.word[side] = 0xffffffff; }

// The zero points of a pair of lines, in the same order, each a byte.
template <int kParts>
struct ZeroPoints {
  std::uint32_t word[(kParts + 1) / 2];

  GEMMD_DEVICE void Load(ptx::SharedAddress from) {
    if constexpr (kParts == 1) {
      word[0] = ptx::LoadShared<std::uint16_t>(from);
    } else {
      struct alignas(2 * kParts) Words {
        std::uint32_t word[kParts / 2];
      };
      const auto words = ptx::LoadShared<Words>(from);
      GEMMD_UNROLL
      for (int i = 0; i < kParts / 2; ++i) word[i] = words.word[i];
    }
  }
  // In both halves.
  GEMMD_DEVICE std::uint32_t Of(int side, int part) const {
    const int nth = side * kParts + part;
    return ptx::ByteInHalves(word[nth / 4], nth % 4);
  }
};

// The constants of a decoder that follow from its format alone. A group of 128 of K has `kParts`
// sums that are scaled apart, of `kPartSteps` steps each.
template <CodeFormat kFormat_>
struct OfFormat {
  static constexpr CodeFormat kFormat = kFormat_;
  static constexpr bool kIsChain = IsChain(kFormat);
  static constexpr bool kHasParts = HasParts(kFormat);
  static constexpr int kParts = kHasParts ? ScalesOf(kFormat) : 1;
  static constexpr int kPartSteps = kSteps / kParts;
  static constexpr Code kCode = CodeOf(kFormat);
  static constexpr int kPairWords = PairWords(kCode);
  static constexpr int kStepWords = StepWords(kCode);
  static constexpr int kCodeLoads = kPairWords;  // of a lane, of 16 bytes each
  static constexpr int kCodeBytes = CodeBytes(kCode);
  static constexpr int kScaleBytes = ScaleBytes(kFormat);
  static constexpr int kShiftBytes = ShiftBytes(kFormat);
  static constexpr bool kHasOffsets = HasOffsets(kFormat);
  static constexpr bool kHasTable = HasTable(kFormat);
  static constexpr int kTerms = TraitsOf(kFormat).terms;
  static constexpr bool kHasNan = false;
  static constexpr bool kHasOddCodes = false;
};

// A decoder has a unit's scales and zero points as a lane needs them: of lines `pair` and
// `pair` + 8 of the strip. kHasShifts: a plane stands beside that of the scales, of zero points or
// of offsets, which whoever adds a part's sum reads. kIsChain: sums are not scaled, and run on from
// one group to the next. kHasNan: codes may be NaN, which Decode() takes for numbers; then the
// scales of their lines have to become NaN, which PoisonLines() does. Decode<true>() takes every
// scale and code, and Decode<false>() those that weights usually have: of a chain without
// HasOddScale(), and where it kHasOddCodes words without OddBits().
template <class Rows_, ZeroKind kZero_, CodeFormat kFormat = CodeFormat::kInt4>
struct Int4Decoder : OfFormat<kFormat> {
  using Of = OfFormat<kFormat>;
  using Rows = Rows_;
  using Scales =
      std::conditional_t<ScaleSize(kFormat) == 4, FloatScales<Of::kParts>, HalfScales<Of::kParts>>;
  static constexpr ZeroKind kZero = kZero_;
  static constexpr bool kHasZeros = kZero == ZeroKind::kPlane;
  static constexpr bool kHasShifts = kHasZeros || Of::kHasOffsets;
  static constexpr std::uint32_t kBoth = 0x00010001;

  Scales scales;
  ZeroPoints<Of::kParts> zeros;

  // The pair's places in the pieces of scales and of zero points.
  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress shifts_at) {
    scales = LoadAll<Scales>(scales_at);
    if constexpr (kHasZeros) zeros.Load(shifts_at);
  }

  // The fragment of a step of the group.
  template <bool kAny = false>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[Of::kStepWords], int step,
                           std::uint32_t (&fragment)[4]) const {
    const std::uint32_t zero[2] = {Zero(0, step / Of::kPartSteps), Zero(1, step / Of::kPartSteps)};
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t codes =
          ptx::MaskAndSet(words[0] >> (4 * j), 0x000f000f, Rows::kUnitBits * kBoth);
      fragment[j] = Rows::Subtract(codes, zero[j % 2]);
    }
  }

 private:
  // As a code is stored, upon a unit.
  GEMMD_DEVICE std::uint32_t Zero(int side, int part) const {
    if constexpr (kHasZeros) return zeros.Of(side, part) + Rows::kUnitBits * kBoth;
    return (Rows::kUnitBits + (kZero == ZeroKind::kMiddle ? 8 : 0)) * kBoth;
  }
};

// Two int8 codes in the low bytes of a word's halves. Their lowest seven bits are added to a unit,
// from which the eighth, worth -128, is one more step of 128 away.
template <class Rows>
GEMMD_DEVICE std::uint32_t NumbersOfInt8(std::uint32_t codes) {
  constexpr std::uint32_t kUnits = Rows::kUnitBits * 0x00010001;
  return Rows::Subtract(ptx::MaskAndSet(codes, 0x007f007f, kUnits),
                        ptx::MaskAndSet(codes, 0x00800080, kUnits));
}

template <class Rows_, ZeroKind kZero_, CodeFormat kFormat = CodeFormat::kInt8>
struct Int8Decoder : OfFormat<kFormat> {
  using Of = OfFormat<kFormat>;
  using Rows = Rows_;
  using Scales = FloatScales<Of::kParts>;
  static constexpr ZeroKind kZero = kZero_;
  static constexpr bool kHasZeros = kZero == ZeroKind::kPlane;
  static constexpr bool kHasShifts = kHasZeros || Of::kHasOffsets;

  Scales scales;
  ZeroPoints<Of::kParts> zeros;

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress shifts_at) {
    scales = LoadAll<Scales>(scales_at);
    if constexpr (kHasZeros) zeros.Load(shifts_at);
  }

  template <bool kAny = false>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[Of::kStepWords], int step,
                           std::uint32_t (&fragment)[4]) const {
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      fragment[j] = NumbersOfInt8<Rows>(words[j / 2] >> (j % 2 * 8));
      if constexpr (kZero == ZeroKind::kMiddle) {
        fragment[j] = Rows::Subtract(fragment[j], Rows::kMinus128Bits * 0x00010001);
      }
      if constexpr (kHasZeros) {
        const std::uint32_t zero = NumbersOfInt8<Rows>(zeros.Of(j % 2, step / Of::kPartSteps));
        fragment[j] = Rows::Subtract(fragment[j], zero);
      }
    }
  }
};

// The scales of floats.
template <CodeFormat kFormat>
using ScalesOfFloats = std::conditional_t<HasParts(kFormat), ByteScales, FloatScales<1>>;

template <class Rows_, CodeFormat kFormat = CodeFormat::kE4m3>
struct E4m3Decoder : OfFormat<kFormat> {
  using Of = OfFormat<kFormat>;
  using Rows = Rows_;
  using Scales = ScalesOfFloats<kFormat>;
  static constexpr bool kHasNan = true;
  static constexpr bool kHasShifts = false;

  Scales scales;
  std::uint32_t nan_bits[2];  // of each line: kNan is set if a code of this lane was NaN

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*shifts_at*/) {
    scales = ptx::LoadShared<Scales>(scales_at);
    nan_bits[0] = 0;
    nan_bits[1] = 0;
  }

  // NaN is the code whose bits but the sign are all set: one more carries into the bit above them.
  template <bool kAny = false>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[Of::kStepWords], int /*step*/,
                           std::uint32_t (&fragment)[4]) {
    GEMMD_UNROLL
    for (int w = 0; w < 2; ++w) {
      const std::uint32_t even = words[w] & 0x87f087f0;
      const std::uint32_t odd =
          ptx::MaskAndSet(words[w] << 4, 0x80f080f0, words[w] >> 4 & 0x07000700);
      nan_bits[0] |= even + kLowestBits;
      nan_bits[1] |= odd + kLowestBits;
      fragment[2 * w] = Rows::template FromPlaced<7>(even);
      fragment[2 * w + 1] = Rows::template FromPlaced<7>(odd);
    }
  }

  GEMMD_DEVICE bool HasNan() const { return ((nan_bits[0] | nan_bits[1]) & kNan) != 0; }

  // A line's codes are in four lanes. All lanes of the warp call it.
  GEMMD_DEVICE void PoisonLines(Scales& of_lines) const {
    const std::uint32_t first = ptx::LaneIndex() / 4 * 4;
    GEMMD_UNROLL
    for (int side = 0; side < 2; ++side) {
      std::uint32_t bits = 0;
      GEMMD_UNROLL
      for (std::uint32_t lane = 0; lane < 4; ++lane) {
        bits |= ptx::Shuffle(nan_bits[side], first + lane);
      }
      if ((bits & kNan) != 0) SetNan(of_lines, side);
    }
  }

 private:
  static constexpr std::uint32_t kLowestBits = 0x00100010;
  static constexpr std::uint32_t kNan = 0x08000800;
};

template <class Rows_, CodeFormat kFormat>
struct E5m2Decoder : OfFormat<kFormat> {
  using Of = OfFormat<kFormat>;
  using Rows = Rows_;
  using Scales = ScalesOfFloats<kFormat>;
  static constexpr bool kHasShifts = false;
  static constexpr bool kHasOddCodes = !Rows::kHoldsE5m2;

  Scales scales;

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*shifts_at*/) {
    scales = ptx::LoadShared<Scales>(scales_at);
  }

  // The highest bit of a byte is set if it is infinity or NaN, 0x7c or more but for the sign, and
  // seldom else: four more turn that bit, or five where the byte below carries.
  static GEMMD_DEVICE std::uint32_t OddBits(std::uint32_t word) {
    return (word ^ (word + 0x04040404)) & 0x80808080;
  }

  template <bool kAny = false>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[Of::kStepWords], int /*step*/,
                           std::uint32_t (&fragment)[4]) const {
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      fragment[j] = Rows::template FromE5m2<kAny>(words[j / 2], j % 2);
    }
  }
};

// E3M2 and E2M3: a step's word of low bits, and that of two steps' high bits.
template <class Rows_, CodeFormat kFormat>
struct SixBitDecoder : OfFormat<kFormat> {
  using Of = OfFormat<kFormat>;
  using Rows = Rows_;
  using Scales = ByteScales;
  static constexpr bool kHasShifts = false;

  Scales scales;

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*shifts_at*/) {
    scales = ptx::LoadShared<Scales>(scales_at);
  }

  template <bool kAny = false>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[Of::kStepWords], int step,
                           std::uint32_t (&fragment)[4]) const {
    if (step % 2 == 0) {
      DecodeOf<0>(words, fragment);
    } else {
      DecodeOf<1>(words, fragment);
    }
  }

 private:
  static constexpr bool kIsE3m2 = Of::kCode == Code::kE3m2;
  static constexpr int kBias = kIsE3m2 ? 3 : 1;

  template <int kStep>
  static GEMMD_DEVICE void DecodeOf(const std::uint32_t (&words)[Of::kStepWords],
                                    std::uint32_t (&fragment)[4]) {
    fragment[0] = Number<kStep, 0>(words[0], words[1]);
    fragment[1] = Number<kStep, 1>(words[0], words[1]);
    fragment[2] = Number<kStep, 2>(words[0], words[1]);
    fragment[3] = Number<kStep, 3>(words[0], words[1]);
  }
  template <int kStep, int kRegister>
  static GEMMD_DEVICE std::uint32_t Number(std::uint32_t low, std::uint32_t high) {
    const std::uint32_t upper =
        ptx::RotateLeft(high, kSixBitRotation<Of::kCode, kStep, kRegister>) &
        (kIsE3m2 ? 0x82008200 : 0x81008100);
    const std::uint32_t placed = ptx::MaskAndSet(ptx::RotateLeft(low, 4 * kRegister),
                                                 kIsE3m2 ? 0x01e001e0 : 0x00f000f0, upper);
    return Rows::template FromPlaced<kBias>(placed);
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

struct Mxfp4Decoder : OfFormat<CodeFormat::kMxfp4> {
  using Rows = Bf16Rows;
  static constexpr bool kHasShifts = false;
  static constexpr float kSumFactor = 4;  // of sums of what Decode() gives

  using Scales = std::uint32_t[2];  // of each line, in ascending K
  Scales scales;

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*shifts_at*/) {
    const auto pair = ptx::LoadShared<ScalePair>(scales_at);
    scales[0] = pair.word[0];
    scales[1] = pair.word[1];
  }

  // Returns whether a scale is 2 or more: seldom of weights, so that Decode<true>() may be slow.
  GEMMD_DEVICE bool HasOddScale() const { return ((scales[0] | scales[1]) & 0x80808080) != 0; }

  // A quarter of the values, each exact: the largest would be infinite in bf16. Placed codes are
  // 2^126 times too small, so that factors are 2^124 scales; large ones come as two factors.
  template <bool kAny>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[kStepWords], int step,
                           std::uint32_t (&fragment)[4]) const {
    PlaceE2m1(words[0], fragment);
    const std::uint32_t factors[2] = {Factor<kAny>(scales[0], step / 2),
                                      Factor<kAny>(scales[1], step / 2)};
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      constexpr std::uint32_t kTwoTo124 = 0x7d807d80;
      if constexpr (kAny) fragment[j] = ptx::MultiplyBf16(fragment[j], kTwoTo124);
      fragment[j] = ptx::MultiplyBf16(fragment[j], factors[j % 2]);
    }
  }

 private:
  struct alignas(8) ScalePair {
    std::uint32_t word[2];
  };
  // A byte is bf16's exponent, but for 0, which is 2^-127: a subnormal number; and 255, which is
  // NaN. Those below 128 may be 2^124 times as large.
  template <bool kAny>
  static GEMMD_DEVICE std::uint32_t Factor(std::uint32_t scales_of_line, int nth) {
    const std::uint32_t exponents = ptx::ByteInHalves(scales_of_line, nth) * 128;
    if constexpr (!kAny) return exponents + 124 * 0x00800080;
    constexpr std::uint32_t kInfinities = 0x7f807f80;
    return exponents == kInfinities ? 0x7fff7fff : ptx::MaxOfHalves(exponents, 0x00400040);
  }
};

struct Nvfp4Decoder : OfFormat<CodeFormat::kNvfp4> {
  using Rows = Bf16Rows;
  static constexpr bool kHasShifts = false;
  static constexpr float kSumFactor = 128;  // of sums of what Decode() gives

  // As packed: two words of the first line, in ascending K, then two of the second.
  struct alignas(16) Scales {
    std::uint32_t word[4];
  };
  Scales scales;

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*shifts_at*/) {
    scales = ptx::LoadShared<Scales>(scales_at);
  }

  // Returns whether a scale is no positive normal number: packed it is 0x77 or more. A byte from
  // 0xf7 on carries into the next, which changes nothing: it is odd itself.
  GEMMD_DEVICE bool HasOddScale() const {
    std::uint32_t odd = 0;
    GEMMD_UNROLL
    for (const std::uint32_t word : scales.word) odd |= word | (word + 0x09090909);
    return (odd & 0x80808080) != 0;
  }

  // 2^-7 of the values, each exact: placed codes are 2^126 times too small, and the largest factor,
  // 2^119 scales, is just finite. A step is a scale's block.
  template <bool kAny>
  GEMMD_DEVICE void Decode(const std::uint32_t (&words)[kStepWords], int step,
                           std::uint32_t (&fragment)[4]) const {
    PlaceE2m1(words[0], fragment);
    const std::uint32_t factors[2] = {Factor<kAny>(scales.word[step / 4], step % 4),
                                      Factor<kAny>(scales.word[2 + step / 4], step % 4)};
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      constexpr std::uint32_t kTwoTo119 = 0x7b007b00;
      if constexpr (kAny) fragment[j] = ptx::MultiplyBf16(fragment[j], kTwoTo119);
      fragment[j] = ptx::MultiplyBf16(fragment[j], factors[j % 2]);
    }
  }

 private:
  // A byte as sent has four bits of exponent, with a bias of 7, above three of fraction.
  template <bool kAny>
  static GEMMD_DEVICE std::uint32_t Factor(std::uint32_t scales_of_line, int nth) {
    constexpr std::uint32_t kBoth = 0x00010001;
    const std::uint32_t packed = ptx::ByteInHalves(scales_of_line, nth);
    // The exponent's lowest bit is bf16's bit 7, and packing has taken one of it.
    constexpr std::uint32_t kExponent = (1 + 127 - 7 + 119) << 7;
    if constexpr (!kAny) return packed * 16 + kExponent * kBoth;
    const std::uint32_t sent = (packed + 8 * kBoth) & 0x00ff00ff;
    const std::uint32_t scale = Rows::template FromPlaced<7>(
        ptx::MaskAndSet(sent << 8, 0x80008000, sent << 4 & 0x07f007f0));
    return (sent & 0x7f) == 0x7f ? 0x7fff7fff : scale;
  }
};

// The fragments of a step: one of each term.
template <bool kAny, class Decoder>
GEMMD_DEVICE void DecodeStep(Decoder& decoder, const std::uint32_t (&words)[Decoder::kStepWords],
                             int step, std::uint32_t (&fragments)[Decoder::kTerms][4]) {
  if constexpr (Decoder::kHasTable) {
    decoder.DecodeTerms(words, fragments);
  } else {
    decoder.template Decode<kAny>(words, step, fragments[0]);
  }
}

// Word w of four.
GEMMD_DEVICE std::uint32_t WordOf(const ptx::Vector4& words, int w) {
  return w == 0 ? words.x : w == 1 ? words.y : w == 2 ? words.z : words.w;
}
// The words of a step, from a lane's loads, of which the first may be that of a later step. Those
// of 6 bits have one of their own, and behind the next step's one for both.
template <class Decoder, int kLoads>
GEMMD_DEVICE void TakeWords(const ptx::Vector4 (&loads)[kLoads], int step,
                            std::uint32_t (&words)[Decoder::kStepWords]) {
  GEMMD_UNROLL
  for (int i = 0; i < Decoder::kStepWords; ++i) {
    const int of_pair =
        Decoder::kPairWords == 3 ? (i == 0 ? step % 2 : 2) : step % 2 * Decoder::kStepWords + i;
    const int nth = step / 2 * Decoder::kPairWords + of_pair;
    words[i] = WordOf(loads[nth / 4 % kLoads], nth % 4);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
