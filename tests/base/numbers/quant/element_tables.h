// The values of every code by the definitions of the formats' standards, written for tests alone.
#pragma once

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "base/numbers/types.h"

namespace gemmd::testing {

struct ElementCase {
  DataType type;
  int exponent_bits;
  int fraction_bits;
  int bias;
  int nans;        // codes at the top that are NaN, of either sign
  int infinities;  // codes below them that are infinite

  int bits() const { return 1 + exponent_bits + fraction_bits; }
  int codes() const { return 1 << bits(); }
  int finite_codes() const { return codes() / 2 - nans - infinities; }
};

inline const std::vector<ElementCase>& FloatCases() {
  static const std::vector<ElementCase> cases = {
      {DataType::kFp8E4M3, 4, 3, 7, 1, 0},  {DataType::kFp8E5M2, 5, 2, 15, 3, 1},
      {DataType::kFp6E3M2, 3, 2, 3, 0, 0},  {DataType::kFp6E2M3, 2, 3, 1, 0, 0},
      {DataType::kFp4E2M1, 2, 1, 1, 0, 0},  {DataType::kF16, 5, 10, 15, 1023, 1},
      {DataType::kBf16, 8, 7, 127, 127, 1},
  };
  return cases;
}

inline void PrintTo(const ElementCase& element, std::ostream* out) {
  *out << std::string(Name(element.type));
}

// A step up from zero in subnormal units, doubling at each exponent: no formula of fields.
inline std::vector<double> FiniteValues(const ElementCase& element) {
  std::vector<double> values;
  double value = 0;
  double step = std::pow(2.0, 1 - element.bias - element.fraction_bits);
  const int in_binade = 1 << element.fraction_bits;
  for (int code = 0; code < element.finite_codes(); ++code) {
    values.push_back(value);
    if (code >= 2 * in_binade && code % in_binade == 0) step *= 2;
    value += step;
  }
  return values;
}

inline double ValueOf(const ElementCase& element, int code) {
  const int magnitude = code % (element.codes() / 2);
  const double sign = code == magnitude ? 1 : -1;
  if (magnitude < element.finite_codes()) {
    return sign * FiniteValues(element)[static_cast<std::size_t>(magnitude)];
  }
  if (magnitude < element.finite_codes() + element.infinities) {
    return sign * std::numeric_limits<double>::infinity();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace gemmd::testing
