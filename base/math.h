// Ratios of whole numbers, rounded up.
#pragma once

#include <type_traits>

namespace gemmd {

// The ratio, rounded up. x is at least 0, y at least 1, and their sum a T. Only x says what T is.
template <typename T>
constexpr T CeilOfRatio(T x, std::common_type_t<T> y) {
  return (x + y - 1) / y;
}

// The least multiple of `step` that is no less than the value; as CeilOfRatio() in all else.
template <typename T>
constexpr T RoundUp(T value, std::common_type_t<T> step) {
  return CeilOfRatio(value, step) * step;
}

}  // namespace gemmd
