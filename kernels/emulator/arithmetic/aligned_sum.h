// Eight outputs of tensor_core.h's rule side by side, for factors that were split into value and
// exponent (product_block.h, scaled_block.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/emulator/arithmetic/product_block.h"

namespace gemmd::emulator {

// Lanes are outputs. The compiler splits these where registers are shorter.
using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
using Longs = std::int64_t __attribute__((vector_size(64)));

// The exponent of a zero: below every sum of two exponents that takes part, and far from overflow.
constexpr std::int32_t kNoExponent = -2000;
constexpr std::int32_t kAlignedBits = 25;  // tensor_core.h, step 3
// Where every result is a normal f32 whatever its 25 to 33 bits are.
constexpr std::int32_t kLowestExponent = -101;
constexpr std::int32_t kHighestExponent = 120;

// 2^exponent, by its bits. REQUIRES: a normal f32.
inline __attribute__((always_inline)) void PowerOfTwo(const Ints& exponent, Floats* power) {
  const Ints bits = (exponent + 127) << 23;
  std::memcpy(power, &bits, sizeof bits);
}

inline __attribute__((always_inline)) bool IsNone(const Ints& wrong) {
  std::int32_t any = 0;
  for (int i = 0; i < kBlockColumns; ++i) any |= wrong[i];
  return any == 0;
}

// Does steps 2 to 4 of tensor_core.h. result[i] is the sum of column i, rounded toward zero to
// f32's 24 bits; lost[i], unless `lost` is null, says whether that lost any bits. `scale`, unless
// null, has the exponents of the block's scales: the products of column i are multiplied by
// 2^scale[i]. Returns false where this quick way does not apply. Row has value[k] and exponent[k],
// Columns value[k][i] and exponent[k][i].
template <int kProducts, class Row, class Columns>
inline __attribute__((always_inline)) bool SumAligned(const Row& row, const Columns& columns,
                                                      const std::int32_t* scale,
                                                      const float* addend, float* result,
                                                      std::int32_t* lost) {
  Floats addends;
  Ints bits;
  std::memcpy(&addends, addend, sizeof addends);
  std::memcpy(&bits, addend, sizeof bits);
  const Ints field = (bits >> 23) & 255;
  const Ints is_zero = (bits & 0x7fffffff) == 0;
  const Ints is_odd = (field == 255) | ((field == 0) & ~is_zero);
  Ints scales = {};
  if (scale != nullptr) std::memcpy(&scales, scale, sizeof scales);

  Ints of_products = Ints{} + 2 * kNoExponent;
  for (int k = 0; k < kProducts; ++k) {
    Ints of_product;
    std::memcpy(&of_product, &columns.exponent[k], sizeof of_product);
    of_product += row.exponent[k];
    of_products = of_product > of_products ? of_product : of_products;
  }
  of_products += scales;
  Ints largest = is_zero ? Ints{} + kNoExponent : field - 127;
  largest = of_products > largest ? of_products : largest;
  const Ints is_out =
      is_odd | (largest > kHighestExponent) | ((largest < kLowestExponent) & (largest > -1000));
  if (!IsNone(is_out)) return false;

  // Products have at most 22 bits, so that they are exact, and so is their multiplication by
  // a power of two, except where the result is far below one; the conversion truncates.
  const Ints exponent = (largest > kLowestExponent ? largest : Ints{} + kLowestExponent);
  Floats align;
  PowerOfTwo(kAlignedBits - exponent, &align);
  const Ints first = __builtin_convertvector(addends * align, Ints);
  if (scale != nullptr) {
    // Beyond these bounds there are no products, or all of them are far below one.
    constexpr std::int32_t kFarBelow = 140;
    Ints unscaled = exponent - scales;
    unscaled = unscaled > kLowestExponent ? unscaled : Ints{} + kLowestExponent;
    unscaled = unscaled < kFarBelow ? unscaled : Ints{} + kFarBelow;
    PowerOfTwo(kAlignedBits - unscaled, &align);
  }
  // An aligned product is below 2^27: eight of them fit 32 bits, sixteen need not.
  Ints partial[kProducts / 8] = {};
  for (int k = 0; k < kProducts; ++k) {
    Floats value;
    std::memcpy(&value, &columns.value[k], sizeof value);
    partial[k / 8] += __builtin_convertvector(value * row.value[k] * align, Ints);
  }
  Doubles sum = __builtin_convertvector(first, Doubles);
  for (int i = 0; i < kProducts / 8; ++i) sum += __builtin_convertvector(partial[i], Doubles);
  Floats unalign;
  PowerOfTwo(exponent - kAlignedBits, &unalign);
  // The sum has at most 33 bits, so the product is exact.
  const Doubles exact = sum * __builtin_convertvector(unalign, Doubles);
  Longs exact_bits;
  std::memcpy(&exact_bits, &exact, sizeof exact_bits);
  constexpr std::int64_t kBeyondF32 = (std::int64_t{1} << 29) - 1;
  const Longs kept = exact_bits & ~kBeyondF32;
  Doubles truncated;
  std::memcpy(&truncated, &kept, sizeof truncated);
  const Floats rounded = __builtin_convertvector(truncated, Floats);
  std::memcpy(result, &rounded, sizeof rounded);
  if (lost != nullptr) {
    const Ints some = __builtin_convertvector((exact_bits & kBeyondF32) != 0, Ints);
    std::memcpy(lost, &some, sizeof some);
  }
  return true;
}

}  // namespace gemmd::emulator
