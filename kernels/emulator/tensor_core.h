// The arithmetic of mma.sync and wgmma for f16 and bf16 operands, bit for bit as an
// sm_90 tensor core does it.
//
// PTX ISA leaves the order and rounding of the sum unspecified. Measured on an H200:
// one instruction adds blocks of 16 products to the accumulator. In a block
//   1. products are exact;
//   2. products and addend are aligned to the largest exponent among them, where a
//      product's exponent is the sum of its factors' (so not normalised), and a
//      subnormal factor has that of the smallest normal number;
//   3. each is truncated toward zero to 25 bits below that exponent;
//   4. the sum is exact, and rounded once: toward zero for an f32 accumulator, to
//      nearest even for an f16 one.
// Zeros take no part in step 2. mma.sync and wgmma agree, so a result depends on the
// order of K alone. kernels/NOTES.md says what was compared.
#pragma once

#include <array>
#include <cstdint>

namespace gemmd::emulator {

constexpr int kBlockProducts = 16;

enum class HalfFormat : std::uint8_t { kF16, kBf16 };

// The value of a 16-bit float.
float Widen(HalfFormat format, std::uint16_t bits);
// To nearest even; NaN becomes the canonical 0x7fff, as cvt.rn gives it.
std::uint16_t Narrow(HalfFormat format, float value);

// 16 factors of one row of A or column of B, prepared.
struct Factors {
  std::array<double, kBlockProducts> value;
  std::array<std::int32_t, kBlockProducts> exponent;
  bool finite = true;

  void Set(HalfFormat format, int k, std::uint16_t bits);
  // A binary32 as a tf32 operand: its lowest 13 bits are cut off.
  void SetTf32(int k, std::uint32_t bits);
};

// addend + sum of a[k] * b[k], steps 1 to 3 above and the exact sum. For operands with
// an infinity or a NaN: what IEEE 754 arithmetic gives, in no particular order.
double AlignedSum(double addend, const Factors& a, const Factors& b);

// Step 4.
float RoundToF32(double sum);
std::uint16_t RoundToF16(double sum);

}  // namespace gemmd::emulator
