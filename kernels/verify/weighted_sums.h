// Weighted sums over the rows of a matrix of any element type, in one reading of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/numbers/types.h"

namespace gemmd {

class QuantizedElements;

// Elements in host memory, one of the two strides 1.
struct MatrixSpan {
  DataType type = DataType::kF32;
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  // elements
  std::int64_t column_stride = 0;
  // Not null: the elements, whatever type and data say. Its lines are the rows, or the columns.
  const QuantizedElements* quantized = nullptr;
  bool lines_are_rows = false;
  // In the gauge a quantized element counts this share of its line's largest scale more.
  double gauge_floor = 0;
};

// Real is double or long double.
template <typename Real>
struct SumsOfRows {
  // One a vector of weights: sums[v][row] = sum over columns of element * weights[v][column].
  std::vector<std::vector<Real>> sums;
  // gauge[row] = sum over columns of |element| (or its square) * gauge_weights[column].
  std::vector<Real> gauge;
};

enum class Gauge : std::uint8_t { kAbsolute, kSquare };

// Fills rows [begin, end) of `result`, which has room for all. Any number of threads may fill
// different rows.
template <typename Real>
void SumRows(const MatrixSpan& matrix, const std::vector<std::vector<Real>>& weights, Gauge gauge,
             const std::vector<Real>& gauge_weights, std::int64_t begin, std::int64_t end,
             SumsOfRows<Real>* result);

}  // namespace gemmd
