#include "kernels/verify/weighted_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "kernels/verify/quantized_elements.h"

namespace gemmd {
namespace {

constexpr std::int64_t kRun = 256;  // elements widened at a time: they stay in the first cache

template <typename Stored, typename Real, typename Convert>
void Widen(const void* data, std::int64_t index, std::int64_t count, Real* wide, Convert convert) {
  const auto* const stored = static_cast<const Stored*>(data) + index;
  for (std::int64_t i = 0; i < count; ++i) wide[i] = convert(stored[i]);
}

std::array<float, 256> Fp8Table(float (*value)(std::uint8_t)) {
  std::array<float, 256> table{};
  for (std::size_t code = 0; code < table.size(); ++code) {
    table[code] = value(static_cast<std::uint8_t>(code));
  }
  return table;
}

// `count` neighbours from element `index` on.
template <typename Real>
void WidenRun(DataType type, const void* data, std::int64_t index, std::int64_t count, Real* wide) {
  static const std::array<float, 256> e4m3 = Fp8Table(FromFp8E4M3);
  static const std::array<float, 256> e5m2 = Fp8Table(FromFp8E5M2);
  const auto as_is = [](auto x) { return static_cast<Real>(x); };
  switch (type) {
    case DataType::kF64:
      return Widen<double>(data, index, count, wide, as_is);
    case DataType::kF32:
    case DataType::kTf32:
      return Widen<float>(data, index, count, wide, as_is);
    case DataType::kF16:
      return Widen<std::uint16_t>(data, index, count, wide, FromF16);
    case DataType::kBf16:
      return Widen<std::uint16_t>(data, index, count, wide, FromBf16);
    case DataType::kInt8:
      return Widen<std::int8_t>(data, index, count, wide, as_is);
    case DataType::kInt32:
      return Widen<std::int32_t>(data, index, count, wide, as_is);
    case DataType::kFp8E4M3:
      return Widen<std::uint8_t>(data, index, count, wide, [](std::uint8_t x) { return e4m3[x]; });
    case DataType::kFp8E5M2:
      return Widen<std::uint8_t>(data, index, count, wide, [](std::uint8_t x) { return e5m2[x]; });
    case DataType::kMxfp8E4M3:
    case DataType::kInt4:
    case DataType::kE8M0:
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      break;
  }
  std::fill_n(wide, count, std::nan(""));  // has no values here: nothing of it verifies
}

// `count` neighbours from (row, column) on, along the columns of a row or the rows of a column.
template <typename Real>
void ReadRun(const MatrixSpan& matrix, std::int64_t row, std::int64_t column, std::int64_t count,
             Real* run) {
  if (matrix.quantized == nullptr) {
    return WidenRun(matrix.type, matrix.data,
                    row * matrix.row_stride + column * matrix.column_stride, count, run);
  }
  const bool by_rows = matrix.lines_are_rows;
  matrix.quantized->Values(by_rows ? row : column, by_rows ? column : row, count, run);
}

// Eight sums side by side, so that no addition waits for the last.
template <typename Real>
Real Dot(const Real* x, const Real* y, std::int64_t count) {
  constexpr std::int64_t kLanes = 8;
  Real lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * y[i + lane];
  }
  Real sum = 0;
  for (; i < count; ++i) sum += x[i] * y[i];
  for (const Real lane : lanes) sum += lane;
  return sum;
}

// Turns the values that a run has just read into what they count in the gauge.
template <typename Real>
void MakeGauge(const MatrixSpan& matrix, Gauge gauge, std::int64_t row, std::int64_t column,
               std::int64_t count, Real* values) {
  if (matrix.quantized != nullptr) {
    const bool by_rows = matrix.lines_are_rows;
    matrix.quantized->ToMagnitudes(by_rows ? row : column, by_rows ? column : row, count,
                                   matrix.gauge_floor, values);
  }
  if (gauge == Gauge::kAbsolute) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = std::abs(values[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= values[i];
  }
}

}  // namespace

template <typename Real>
void SumRows(const MatrixSpan& matrix, const std::vector<std::vector<Real>>& weights, Gauge gauge,
             const std::vector<Real>& gauge_weights, std::int64_t begin, std::int64_t end,
             SumsOfRows<Real>* result) {
  for (auto& sums : result->sums) std::fill(sums.begin() + begin, sums.begin() + end, Real{0});
  std::fill(result->gauge.begin() + begin, result->gauge.begin() + end, Real{0});
  Real run[kRun];
  if (matrix.column_stride == 1) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < matrix.columns; column += kRun) {
        const std::int64_t count = std::min(kRun, matrix.columns - column);
        ReadRun(matrix, row, column, count, run);
        for (std::size_t v = 0; v < weights.size(); ++v) {
          result->sums[v][row] += Dot(run, weights[v].data() + column, count);
        }
        MakeGauge(matrix, gauge, row, column, count, run);
        result->gauge[row] += Dot(run, gauge_weights.data() + column, count);
      }
    }
    return;
  }
  for (std::int64_t row = begin; row < end; row += kRun) {
    const std::int64_t count = std::min(kRun, end - row);
    for (std::int64_t column = 0; column < matrix.columns; ++column) {
      ReadRun(matrix, row, column, count, run);
      const auto add = [&run, count](Real weight, Real* sums) {
        for (std::int64_t i = 0; i < count; ++i) sums[i] += run[i] * weight;
      };
      for (std::size_t v = 0; v < weights.size(); ++v) {
        add(weights[v][column], result->sums[v].data() + row);
      }
      MakeGauge(matrix, gauge, row, column, count, run);
      add(gauge_weights[column], result->gauge.data() + row);
    }
  }
}

template void SumRows(const MatrixSpan&, const std::vector<std::vector<double>>&, Gauge,
                      const std::vector<double>&, std::int64_t, std::int64_t, SumsOfRows<double>*);
template void SumRows(const MatrixSpan&, const std::vector<std::vector<long double>>&, Gauge,
                      const std::vector<long double>&, std::int64_t, std::int64_t,
                      SumsOfRows<long double>*);

}  // namespace gemmd
