// The generalised Hilbert curve: an order of the tiles of any grid in which each tile is next to
// the one before it. For kernels and for their model (kernels/workshop/model): no memory, no
// recursion.
//
// The curve is the known construction on rectangles (J. Cerveny, "Generalized Hilbert space-filling
// curve for rectangular domains"), written as a descent: a rectangle is cut in two along its long
// side, or in three that lie as the quarters of a Hilbert curve do, and an index says which part it
// is in. On a square whose side is a power of two this is the Hilbert curve.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

struct TilePlace {
  std::int32_t row;
  std::int32_t column;
};

GEMMD_DEVICE constexpr TilePlace operator+(TilePlace a, TilePlace b) {
  return {a.row + b.row, a.column + b.column};
}
GEMMD_DEVICE constexpr TilePlace operator-(TilePlace a, TilePlace b) {
  return {a.row - b.row, a.column - b.column};
}

// These take a step along one axis: one of its two numbers is 0.
GEMMD_DEVICE constexpr std::int32_t LengthOf(TilePlace along) {
  const std::int32_t sum = along.row + along.column;
  return sum < 0 ? -sum : sum;
}
GEMMD_DEVICE constexpr TilePlace Scaled(TilePlace unit, std::int32_t by) {
  return {unit.row * by, unit.column * by};
}
GEMMD_DEVICE constexpr TilePlace UnitOf(TilePlace along) {
  return {(along.row > 0) - (along.row < 0), (along.column > 0) - (along.column < 0)};
}
// Half of a length of at least 2, as an even number where there is one.
GEMMD_DEVICE constexpr std::int32_t EvenHalf(std::int32_t length) {
  const std::int32_t half = length / 2;
  return half % 2 == 1 && length > 2 ? half + 1 : half;
}

// Tile number `at` of the curve from the first tile to an end of the first row or column. It goes
// along the longer side, or along the even one where only the shorter is even: no path of single
// steps joins the ends of an odd side across an even one.
// REQUIRES: rows and columns from 1 to 2^15, 0 <= at < rows * columns.
GEMMD_DEVICE constexpr TilePlace GeneralHilbertTile(std::int32_t at, std::int32_t rows,
                                                    std::int32_t columns) {
  TilePlace corner = {0, 0};
  bool by_rows = rows > columns;
  if (by_rows && rows % 2 == 1 && columns % 2 == 0) by_rows = false;
  if (!by_rows && columns % 2 == 1 && rows % 2 == 0) by_rows = true;
  TilePlace along = by_rows ? TilePlace{rows, 0} : TilePlace{0, columns};
  TilePlace across = by_rows ? TilePlace{0, columns} : TilePlace{rows, 0};
  for (;;) {
    const std::int32_t width = LengthOf(along);
    const std::int32_t height = LengthOf(across);
    const TilePlace right = UnitOf(along);
    const TilePlace up = UnitOf(across);
    if (height == 1) return corner + Scaled(right, at);
    if (width == 1) return corner + Scaled(up, at);
    if (2 * width > 3 * height) {  // long: two parts, one behind the other
      const std::int32_t first = EvenHalf(width);
      if (at < first * height) {
        along = Scaled(right, first);
      } else {
        at -= first * height;
        corner = corner + Scaled(right, first);
        along = Scaled(right, width - first);
      }
      continue;
    }
    // Up in the first half of the width, right above both, down in the second half.
    const std::int32_t half_width = width / 2;
    const std::int32_t low = EvenHalf(height);
    if (at < low * half_width) {
      along = Scaled(up, low);
      across = Scaled(right, half_width);
    } else if (at -= low * half_width; at < (height - low) * width) {
      corner = corner + Scaled(up, low);
      across = Scaled(up, height - low);
    } else {
      at -= (height - low) * width;
      corner = corner + Scaled(right, width - 1) + Scaled(up, low - 1);
      along = Scaled(up, -low);
      across = Scaled(right, half_width - width);
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
