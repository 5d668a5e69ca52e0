// The arithmetic of tensor cores: for mma.sync on f16 and bf16, and wgmma on these and tf32, bit
// for bit as an sm_90 tensor core does it.
//
// PTX ISA leaves the order and rounding of the sum unspecified. Measured on an H200:
// one instruction adds blocks of 32 bytes of K, 16 products of halves, to the accumulator. In
// a block
//   1. products are exact;
//   2. products and addend are aligned to the largest exponent among them, where a
//      product's exponent is the sum of its factors' (so not normalised), and a
//      subnormal factor has that of the smallest normal number;
//   3. each is truncated toward zero to 25 bits below that exponent;
//   4. the sum is exact, and rounded once: toward zero for an f32 accumulator, to
//      nearest even for an f16 one.
// Zeros take no part in step 2. mma.sync and wgmma agree, so a result depends on the
// order of K alone. docs/lab/emulator.md says what was compared.
//
// tcgen05 is emulated by the same rule, for want of a card to measure: Xie et al., "MMA-Sim:
// Bit-accurate reference model of tensor cores and matrix cores" (arXiv 2511.10909), find it on a
// B200 for 16-bit operands, tf32, and 8-bit ones with blocks of 32 products, whose scales count as
// part of the exponents. wgmma on 8-bit operands keeps 13 bits: byte_product.h.
#pragma once

#include <array>
#include <cstdint>

namespace gemmd::emulator {

// The format of an operand's elements. Those of 8 bits are of OFP8 (base/numbers/fp8.h), those of
// 6 and 4 bits of OCP MX; an element of any of the five takes a byte here.
enum class FactorFormat : std::uint8_t { kF16, kBf16, kTf32, kE4m3, kE5m2, kE2m3, kE3m2, kE2m1 };

constexpr std::uint32_t FactorBytes(FactorFormat format) {
  if (format == FactorFormat::kTf32) return 4;
  return format == FactorFormat::kF16 || format == FactorFormat::kBf16 ? 2 : 1;
}

// The bytes that one block of products takes of a row of A or a column of B.
constexpr std::uint32_t kBlockBytes = 32;

constexpr int BlockProducts(std::uint32_t element_bytes) {
  return static_cast<int>(kBlockBytes / element_bytes);
}
constexpr int kBlockProducts = BlockProducts(2);
constexpr int kMostBlockProducts = BlockProducts(1);

enum class HalfFormat : std::uint8_t { kF16, kBf16 };

constexpr FactorFormat ToFactorFormat(HalfFormat format) {
  return format == HalfFormat::kF16 ? FactorFormat::kF16 : FactorFormat::kBf16;
}

// The value of a 16-bit float.
float Widen(HalfFormat format, std::uint16_t bits);
// To nearest even; NaN becomes the canonical 0x7fff, as cvt.rn gives it.
std::uint16_t Narrow(HalfFormat format, float value);

// The bits of a binary32 rounded to tf32's 11 bits, to nearest even, as TMA does it for a map of
// tf32; infinities and NaN as they are.
std::uint32_t RoundToTf32(std::uint32_t bits);

// A block of one row of A or one column of B, prepared: 16 factors, or as many as `count` says.
struct Factors {
  std::array<double, kMostBlockProducts> value;
  std::array<std::int32_t, kMostBlockProducts> exponent;
  bool finite = true;
  int count = kBlockProducts;

  // `bits` are the element's, in the lowest FactorBytes(). A tf32 operand is a binary32 whose
  // lowest 13 bits are cut off.
  void Set(FactorFormat format, int k, std::uint32_t bits);
  void Set(HalfFormat format, int k, std::uint16_t bits) { Set(ToFactorFormat(format), k, bits); }

  // Multiplies all by a block's scale: E8M0, 2^(code - 127), where 0xff is NaN. "OCP Microscaling
  // Formats (MX) Specification", version 1.0, section 5.4.
  void Scale(std::uint8_t code);
};

// addend + sum of a[k] * b[k], steps 1 to 3 above and the exact sum. Operands with an infinity or a
// NaN give what IEEE 754 arithmetic gives, in no particular order. REQUIRES: `a` and `b` have
// equally many factors.
double AlignedSum(double addend, const Factors& a, const Factors& b);

// Step 4.
float RoundToF32(double sum);
std::uint16_t RoundToF16(double sum);

}  // namespace gemmd::emulator
