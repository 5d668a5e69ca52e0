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

struct TableValue {
  double value;
  int code;
};

// The values of a type whose codes have a table, ascending, each once; empty for other types.
inline const std::vector<TableValue>& TableValues(DataType type) {
  static const std::vector<TableValue> nf4 = {
      {-1.0, 0},
      {-0.6961928009986877, 1},
      {-0.5250730514526367, 2},
      {-0.39491748809814453, 3},
      {-0.28444138169288635, 4},
      {-0.18477343022823334, 5},
      {-0.09105003625154495, 6},
      {0.0, 7},
      {0.07958029955625534, 8},
      {0.16093020141124725, 9},
      {0.24611230194568634, 10},
      {0.33791524171829224, 11},
      {0.44070982933044434, 12},
      {0.5626170039176941, 13},
      {0.7229568362236023, 14},
      {1.0, 15},
  };
  constexpr float kThird = 1 / 3.0F;
  constexpr float kSixth = 1 / 6.0F;
  constexpr float kLeast = 0.0625F / 12;
  static const std::vector<TableValue> bnb_fp4 = {
      {-1.0, 11},    {-2 * kThird, 10}, {-0.5, 13}, {-kThird, 12},   {-0.25, 15},
      {-kSixth, 14}, {-kLeast, 9},      {0.0, 0},   {kLeast, 1},     {kSixth, 6},
      {0.25, 7},     {kThird, 4},       {0.5, 5},   {2 * kThird, 2}, {1.0, 3},
  };
  static const std::vector<TableValue> iq4_nl = {
      {-127, 0}, {-104, 1}, {-83, 2}, {-65, 3}, {-49, 4}, {-35, 5}, {-22, 6}, {-10, 7},
      {1, 8},    {13, 9},   {25, 10}, {38, 11}, {53, 12}, {69, 13}, {89, 14}, {113, 15},
  };
  static const std::vector<TableValue> none;
  if (type == DataType::kNf4) return nf4;
  if (type == DataType::kBnbFp4) return bnb_fp4;
  return type == DataType::kIq4Nl ? iq4_nl : none;
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
