// Exact comparison of products of binary64 values, and the rules of rounding stated by it alone:
// nothing here rounds, and nothing is shared with base/numbers/quant.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace gemmd::testing {

// A positive number as an odd integer, or zero, times a power of two.
struct Dyadic {
  unsigned __int128 integer = 0;
  int exponent = 0;
};

// REQUIRES: finite and at least 0.
inline Dyadic Exactly(double value) {
  if (value == 0) return {};
  Dyadic result;
  const double fraction = std::frexp(value, &result.exponent);
  const auto integer = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  const int zeros = __builtin_ctzll(integer);
  result.integer = integer >> zeros;
  result.exponent += zeros - 53;
  return result;
}

// REQUIRES: not 0.
inline int BitCount(unsigned __int128 integer) {
  const auto high = static_cast<std::uint64_t>(integer >> 64);
  return high != 0 ? 128 - __builtin_clzll(high)
                   : 64 - __builtin_clzll(static_cast<std::uint64_t>(integer));
}

// The sign of a * b - c * d, of finite values that are at least 0.
inline int CompareProducts(double a, double b, double c, double d) {
  const auto product = [](double x, double y) {
    const Dyadic left = Exactly(x);
    const Dyadic right = Exactly(y);
    return Dyadic{left.integer * right.integer, left.exponent + right.exponent};
  };
  Dyadic left = product(a, b);
  Dyadic right = product(c, d);
  if (left.integer == 0 || right.integer == 0) {
    return static_cast<int>(left.integer != 0) - static_cast<int>(right.integer != 0);
  }
  const int left_top = BitCount(left.integer) + left.exponent;
  const int right_top = BitCount(right.integer) + right.exponent;
  if (left_top != right_top) return left_top < right_top ? -1 : 1;
  // Equal tops: the shift makes neither longer than the other.
  const int shift = left.exponent - right.exponent;
  if (shift > 0) left.integer <<= shift;
  if (shift < 0) right.integer <<= -shift;
  return static_cast<int>(left.integer > right.integer) -
         static_cast<int>(left.integer < right.integer);
}

// The sign of value - boundary * unit, of any value and boundary, and a unit that is at least 0.
inline int CompareWithMultiple(double value, double boundary, double unit) {
  if (value < 0 || boundary < 0) {
    if (value >= 0) return value > 0 || unit > 0 ? 1 : 0;
    if (boundary >= 0) return -1;
    return CompareProducts(-boundary, unit, -value, 1);
  }
  return CompareProducts(value, 1, boundary, unit);
}

// The index of the value nearest to value / unit, the even one of two; `ascending` begins with 0.
inline std::size_t NearestIndex(const std::vector<double>& ascending, double value, double unit) {
  std::size_t low = 0;
  std::size_t high = ascending.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int side = CompareProducts(2 * value, 1, ascending[middle] + ascending[middle + 1], unit);
    if (side < 0 || (side == 0 && middle % 2 == 0)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The index that rounding up by random_bits chooses: of the neighbours of value / unit the upper
// one where value / unit is further from the lower one than random_bits / 2^32 of their distance.
inline std::size_t StochasticIndex(const std::vector<double>& ascending, double value, double unit,
                                   std::uint32_t random_bits) {
  std::size_t low = 0;
  std::size_t high = ascending.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (CompareProducts(value, 1, ascending[middle], unit) >= 0) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low + 1 == ascending.size()) return low;
  const double threshold =
      ascending[low] * 0x1p32 + (ascending[low + 1] - ascending[low]) * random_bits;
  return low + (CompareProducts(value, 0x1p32, threshold, unit) > 0 ? 1 : 0);
}

}  // namespace gemmd::testing
