// Eight outputs at a time of what tensor_core.h defines for one: the same bits, quickly.
//
// tensor_core.h is the rule; tests compare both on random and on recorded operands.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/emulator/arithmetic/tensor_core.h"

namespace gemmd::emulator {

constexpr int kBlockColumns = 8;

// A block's part of one line of A or of one column of B, as it lies in memory: 32, 16 or 8 elements
// of 8, 16 or 32 bits.
template <typename Element>
using OperandLine = std::array<Element, BlockProducts(sizeof(Element))>;
using HalfLine = OperandLine<std::uint16_t>;

// A block's part of eight columns of B, side by side for each k.
using ColumnBits = std::array<std::array<std::uint16_t, kBlockColumns>, kBlockProducts>;

// A row of A, prepared: each factor's value and its exponent as tensor_core.h counts it, a
// zero's far below all others. Moderate factors, which are finite and not zero outside
// 2^-60..2^61, go the quick way: products of two of them fit f32.
struct RowFactors {
  std::array<float, kBlockProducts> value;
  std::array<std::int32_t, kBlockProducts> exponent;
  bool moderate;
  HalfLine bits;
};

// Eight columns of B, side by side for each k.
struct ColumnFactors {
  alignas(32) std::array<std::array<float, kBlockColumns>, kBlockProducts> value;
  alignas(32) std::array<std::array<std::int32_t, kBlockColumns>, kBlockProducts> exponent;
  bool moderate;
  ColumnBits bits;
};

RowFactors PrepareRow(HalfFormat format, const HalfLine& line);
void PrepareColumns(HalfFormat format, const ColumnBits& bits, ColumnFactors* columns);

// sum[i] = round(sum[i] + row * column i), for each i of 8; toward zero. REQUIRES: row and
// columns were prepared for `format`.
void MultiplyAddF32(HalfFormat format, const RowFactors& row, const ColumnFactors& columns,
                    float* sum);
// sum[i] = round(sum[i] + row * column i) in f16, for each i of 8; to nearest even. REQUIRES: row
// and columns were prepared for f16.
void MultiplyAddF16(const RowFactors& row, const ColumnFactors& columns, std::uint16_t* sum);

}  // namespace gemmd::emulator
