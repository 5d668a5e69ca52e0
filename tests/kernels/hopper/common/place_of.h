// Names a tiling by its tile, for tests of kernels that are templates over its place in a table.
#pragma once

namespace gemmd::testing {

// Returns the place of the tiling whose tiles have `rows` and `columns`, of which there is one; -1,
// which no kernel compiles with, where there is none.
template <class Tiling, int kCount>
constexpr int PlaceOf(const Tiling (&tilings)[kCount], int rows, int columns) {
  for (int i = 0; i < kCount; ++i) {
    if (tilings[i].rows() == rows && tilings[i].columns() == columns) return i;
  }
  return -1;
}

}  // namespace gemmd::testing
