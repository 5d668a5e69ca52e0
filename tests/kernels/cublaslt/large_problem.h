// Large landed problems, filled quickly: elements are drawn from a table of random ones.
#pragma once

#include <cstring>

#include "tests/kernels/cublaslt/landed.h"

namespace gemmd::testing {

// Fills rows x columns elements of whole zero lines.
inline PlaneBytes QuickPlane(const MatrixLayout& layout, std::int64_t rows, std::int64_t columns,
                             std::uint32_t seed) {
  constexpr std::int64_t kTable = 1 << 16;
  const MatrixLayout table_layout{layout.type, 1, kTable, Order::kRowMajor, kTable};
  const PlaneBytes table = RandomValues(table_layout, seed);
  const auto size = static_cast<std::size_t>(SizeBits(layout.type) / 8);
  PlaneBytes plane(static_cast<std::size_t>(layout.outer() * layout.leading_dimension) * size, 0);
  std::uint64_t state = seed;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      // Knuth's MMIX generator, whose high bits are the good ones.
      state = state * 6364136223846793005U + 1442695040888963407U;
      const std::int64_t index = row * layout.row_stride() + column * layout.column_stride();
      std::memcpy(plane.data() + static_cast<std::size_t>(index) * size,
                  table.data() + (state >> 48) * size, size);
    }
  }
  return plane;
}

// A landed m x n x k problem whose operands are both K-major; beyond m, n and k they hold
// zeros where 8-bit types pad them.
inline HostProblem QuickProblem(std::int64_t m, std::int64_t n, std::int64_t k, DataType a,
                                DataType b, DataType d, std::uint32_t seed) {
  const std::int64_t unit = SizeBits(a) == 8 ? 16 : 1;
  const auto padded = [unit](std::int64_t x) { return (x + unit - 1) / unit * unit; };
  HostProblem host;
  Problem& p = host.problem;
  p = MakeProblem(padded(m), padded(n), padded(k), a, d, false, true);
  p.b.type = b;
  p.determinism = Determinism::kFast;
  for (MatrixLayout* layout : {&p.a, &p.b, &p.c, &p.d}) {
    const std::int64_t elements = 128 / SizeBits(layout->type);
    layout->leading_dimension = (layout->inner() + elements - 1) / elements * elements;
  }
  host.a = QuickPlane(p.a, m, k, seed);
  host.b = QuickPlane(p.b, n, k, seed + 1);
  host.d = PlaneBytes(
      static_cast<std::size_t>(p.d.outer() * p.d.leading_dimension * SizeBits(p.d.type) / 8),
      static_cast<char>(0xA5));
  return host;
}

}  // namespace gemmd::testing
