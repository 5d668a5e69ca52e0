// Block-scaled products, eight outputs at a time: tensor_core.h's rule for 32 factors of a row and
// 32 of each column, all of which have their line's scale. The bits are those of that rule,
// computed faster.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/emulator/arithmetic/product_block.h"
#include "kernels/emulator/arithmetic/tensor_core.h"

namespace gemmd::emulator {

// A line's codes, one a byte, and the E8M0 code of their scale.
struct ScaledLine {
  FactorFormat format;
  OperandLine<std::uint8_t> codes;
  std::uint8_t scale;
};

// A row of A, prepared: factors without their scale, and the exponent of that. Zeros' exponents are
// far below all others.
struct ScaledRow {
  std::array<float, kMostBlockProducts> value;
  std::array<std::int32_t, kMostBlockProducts> exponent;
  std::int32_t scale;
  bool is_finite;
  ScaledLine line;
};

// Eight columns of B, side by side for each k.
struct ScaledColumns {
  alignas(32) std::array<std::array<float, kBlockColumns>, kMostBlockProducts> value;
  alignas(32) std::array<std::array<std::int32_t, kBlockColumns>, kMostBlockProducts> exponent;
  std::array<std::int32_t, kBlockColumns> scale;
  bool is_finite;
  std::array<ScaledLine, kBlockColumns> lines;
};

void PrepareScaledRow(const ScaledLine& line, ScaledRow* row);
void PrepareScaledColumns(const std::array<ScaledLine, kBlockColumns>& lines,
                          ScaledColumns* columns);

// sum[i] = round(sum[i] + row * column i), for each i of 8; toward zero.
void MultiplyAddScaled(const ScaledRow& row, const ScaledColumns& columns, float* sum);

}  // namespace gemmd::emulator
