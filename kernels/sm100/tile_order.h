// Orders of tiles.
#pragma once

#include <cstdint>

#include "kernels/ptx/platform.h"

namespace gemmd::sm100 {
inline namespace GEMMD_BACKEND {

// A tile's place in the grid of tiles of D.
struct TilePlace {
  std::uint32_t row;
  std::uint32_t column;
};

GEMMD_DEVICE TilePlace PlaceInRows(std::uint32_t index, std::uint32_t columns) {
  return {index / columns, index % columns};
}

// The place of step `index` of a Hilbert curve through a square of `side` by `side`, a power of
// two: each place once, and each the neighbour of the one before. From the smallest square of four
// to the largest, two bits of the index choose the quarter that the curve so far lies in; in the
// first quarter it is mirrored at the diagonal, in the last at the other one. D. Hilbert, "Ueber
// die stetige Abbildung einer Linie auf ein Flaechenstueck", Mathematische Annalen 38, 1891.
GEMMD_DEVICE TilePlace PlaceOnHilbertCurve(std::uint32_t index, std::uint32_t side) {
  TilePlace place = {0, 0};
  for (std::uint32_t half = 1; half < side; half *= 2) {
    const std::uint32_t quarter = index % 4;
    const bool is_far_row = quarter == 1 || quarter == 2;
    const bool is_far_column = quarter >= 2;
    if (quarter == 0 || quarter == 3) {
      const std::uint32_t row = place.row;
      place.row = quarter == 0 ? place.column : half - 1 - place.column;
      place.column = quarter == 0 ? row : half - 1 - row;
    }
    if (is_far_row) place.row += half;
    if (is_far_column) place.column += half;
    index /= 4;
  }
  return place;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm100
