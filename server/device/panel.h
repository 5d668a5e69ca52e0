// Parts of a product: blocks of D, which are problems of their own. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"
#include "server/device/planes.h"

namespace gemmd {

// Rows [m_begin, m_end) by columns [n_begin, n_end) of D.
struct Panel {
  std::int64_t m_begin = 0;
  std::int64_t m_end = 0;
  std::int64_t n_begin = 0;
  std::int64_t n_end = 0;

  std::int64_t rows() const { return m_end - m_begin; }
  std::int64_t columns() const { return n_end - n_begin; }
};

// Elements as bytes. REQUIRES: whole ones.
inline std::uint64_t ElementBytes(const MatrixLayout& layout, std::int64_t elements) {
  return static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(SizeBits(layout.type)) /
         8;
}

// The steps at which panels may begin: at multiples of these, whatever lies along a dimension is
// whole bytes, whole blocks of scales and whole tiles of them.
std::int64_t PanelRowStep(const Problem& problem);
std::int64_t PanelColumnStep(const Problem& problem);

// The panel as a problem of its own; its operands start at OffsetsOf().
// REQUIRES: it begins at multiples of the steps.
Problem PanelProblem(const Problem& problem, const Panel& panel);

// Bytes from the start of each plane to the panel's first element.
struct PanelOffsets : Planes<std::uint64_t> {
  std::uint64_t d = 0;
};
PanelOffsets OffsetsOf(const Problem& problem, const Panel& panel);

}  // namespace gemmd
