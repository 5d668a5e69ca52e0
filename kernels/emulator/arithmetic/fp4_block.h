// One block-scaled product of 64 e2m1 factors a line, as tcgen05.mma's kinds mxf4 and mxf4nvf4 make
// it, with a scale for each 16 of K.
//
// MMA-Sim (tensor_core.h) finds this rule on a B200; no card was asked here:
//   1. the 16 products of a scale are summed exactly;
//   2. such a sum is multiplied by both scales' significands, which is exact, and has the sum of
//      their exponents as its own, whatever it is, zero too;
//   3. these four and the addend are aligned to the largest exponent among them, and each is
//      truncated toward zero to 35 bits below it;
//   4. the sum is exact, and rounded once, toward zero.
// A zero addend or scale counts with the exponent of the smallest normal f32. A NaN among scales
// and addend makes the canonical NaN; an infinite addend stays what it is, which the source does
// not say.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/emulator/arithmetic/product_block.h"

namespace gemmd::emulator {

constexpr int kFp4Products = 64;
constexpr int kFp4Scales = 4;  // of a line: of two blocks of 32 each counts twice

enum class Fp4ScaleType : std::uint8_t { kE8m0, kE4m3 };  // the sign of the latter is ignored

struct Fp4Scale {
  double significand;
  std::int32_t exponent;
  bool is_nan;
};

// A line, prepared.
struct Fp4Line {
  std::array<std::int16_t, kFp4Products> doubled;  // twice each value
  std::array<Fp4Scale, kFp4Scales> scales;
};

// 64 elements in 32 bytes, of two the even one in the low half (PTX ISA, "Packing format used for
// matrix A and B by .kind::mxf4 and .kind::mxf4nvf4 in shared memory").
Fp4Line PrepareFp4Line(const OperandLine<std::uint8_t>& packed, bool is_negated, Fp4ScaleType type,
                       const std::array<std::uint8_t, kFp4Scales>& scales);

float MultiplyAddFp4(float addend, const Fp4Line& row, const Fp4Line& column);

}  // namespace gemmd::emulator
