// The epilogue of a unit of D, and its rounding to D's type.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/element_types.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/units.h"
#include "kernels/kernel.h"

namespace gemmd {

// The type that Out::Narrow takes.
template <typename Out>
using Rounded =
    std::conditional_t<std::is_same_v<Out, F64> || std::is_same_v<Out, Int32>, double, float>;

template <typename E, typename Out, typename T, typename ScaleOfRow, typename ScaleOfColumn>
void StoreUnitAs(const Problem& problem, const Arguments& arguments, const Unit& unit,
                 const T* sums, std::int64_t pitch, const ScaleOfRow& scale_of_row,
                 const ScaleOfColumn& scale_of_column) {
  const Epilogue& e = problem.epilogue;
  const auto alpha = static_cast<E>(e.alpha);
  const auto beta = static_cast<E>(e.beta);
  const std::int64_t row_stride = problem.d.row_stride();
  const std::int64_t column_stride = problem.d.column_stride();
  auto* d = static_cast<typename Out::Storage*>(arguments.d) + unit.first_row * row_stride +
            unit.first_column * column_stride;
  const auto* bias = static_cast<const typename Out::Storage*>(arguments.bias);
  const auto* c = static_cast<const typename Out::Storage*>(arguments.c);
  for (std::int64_t row = 0; row < unit.rows; ++row) {
    const E row_factor = alpha * scale_of_row(unit.first_row + row);
    for (std::int64_t column = 0; column < unit.columns; ++column) {
      E value = row_factor * static_cast<E>(sums[row * pitch + column]);
      value *= scale_of_column(unit.first_column + column);
      if (beta != 0) {
        value +=
            beta *
            static_cast<E>(Out::Widen(c[(unit.first_row + row) * problem.c.row_stride() +
                                        (unit.first_column + column) * problem.c.column_stride()]));
      }
      if (e.has_bias) value += static_cast<E>(Out::Widen(bias[unit.first_column + column]));
      d[row * row_stride + column * column_stride] =
          Out::Narrow(static_cast<Rounded<Out>>(ActivateAs(e.activation, value)));
    }
  }
}

// D = activation(alpha * scale_of_row(row) * sum * scale_of_column(column) + beta * C + bias),
// computed in E; `sums` is row-major, lines `pitch` apart. REQUIRES: D is f64, f32, f16, bf16 or
// int32.
template <typename E, typename T, typename ScaleOfRow, typename ScaleOfColumn>
void StoreUnit(const Problem& problem, const Arguments& arguments, const Unit& unit, const T* sums,
               std::int64_t pitch, const ScaleOfRow& scale_of_row,
               const ScaleOfColumn& scale_of_column) {
  const auto store = [&](auto out) {
    StoreUnitAs<E, decltype(out)>(problem, arguments, unit, sums, pitch, scale_of_row,
                                  scale_of_column);
  };
  switch (problem.d.type) {
    case DataType::kF64:
      return store(F64());
    case DataType::kF32:
      return store(F32());
    case DataType::kF16:
      return store(F16());
    case DataType::kBf16:
      return store(Bf16());
    case DataType::kInt32:
      return store(Int32());
    default:
      return;  // Rejection() lets no other type in
  }
}

}  // namespace gemmd
