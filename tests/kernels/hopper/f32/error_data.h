// Data of many kinds, and the errors of products of it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "tests/kernels/hopper/common/f32_planes.h"

namespace gemmd::testing {

struct Data {
  const char* name;
  // Gives an element of operand 0, A, or 1, B.
  std::function<float(std::mt19937*, int operand, std::int64_t line, std::int64_t k)> element;
};

inline float Normal(std::mt19937* random) { return std::normal_distribution<float>()(*random); }

inline std::vector<Data> AllData() {
  return {
      {"normal", [](std::mt19937* r, int, std::int64_t, std::int64_t) { return Normal(r); }},
      {"uniform (0, 1)", [](std::mt19937* r, int, std::int64_t,
                            std::int64_t) { return std::uniform_real_distribution<float>()(*r); }},
      {"lognormal 2^(8s)",
       [](std::mt19937* r, int, std::int64_t, std::int64_t) {
         const float size = std::exp2(std::fmin(std::fmax(8 * Normal(r), -40.0F), 40.0F));
         return std::copysign(size, Normal(r));
       }},
      {"graded by 2^-63 along K",
       [](std::mt19937* r, int, std::int64_t line, std::int64_t k) {
         return std::ldexp(Normal(r), -static_cast<int>((k * 37 + line) % 64));
       }},
      {"cancelling in pairs",
       [last = std::array<float, 2>()](std::mt19937* r, int operand, std::int64_t,
                                       std::int64_t k) mutable {
         float& x = last[static_cast<std::size_t>(operand)];
         if (k % 2 == 0) {
           x = Normal(r);
         } else if (operand == 0) {
           x *= -1 - 0x1p-12F * Normal(r);
         }
         return x;
       }},
      {"integers to 2048",
       [](std::mt19937* r, int, std::int64_t, std::int64_t) {
         return static_cast<float>(static_cast<int>((*r)() % 4097) - 2048);
       }},
      {"subnormal A, B to 2^100",
       [](std::mt19937* r, int operand, std::int64_t, std::int64_t) {
         return operand == 0 ? std::ldexp(Normal(r), -130) : std::ldexp(Normal(r), 100);
       }},
  };
}

// Errors of elements: |D - exact| over |A| |B|, in units of 2^-24.
struct Error {
  double largest = 0;
  double square = 0;
  std::int64_t count = 0;
  double rms() const { return std::sqrt(square / static_cast<double>(count)); }
};

// A square product of such data, summed in f64 as well.
struct ErrorRun {
  ErrorRun(const Data& data, std::int64_t side, std::int64_t k) : run({side, side, k}) {
    std::mt19937 random(static_cast<std::uint32_t>(k));
    std::vector<double> a(static_cast<std::size_t>(side * k));
    std::vector<double> b(a.size());
    row_largest.resize(static_cast<std::size_t>(side));
    column_largest.resize(row_largest.size());
    for (std::int64_t line = 0; line < side; ++line) {
      for (std::int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::size_t>(line * k + i);
        const float x = data.element(&random, 0, line, i);
        const float y = data.element(&random, 1, line, i);
        run.SetA(line, i, x);
        run.SetB(i, line, y);
        a[at] = x;
        b[at] = y;
        double& row = row_largest[static_cast<std::size_t>(line)];
        double& column = column_largest[static_cast<std::size_t>(line)];
        row = std::fmax(row, std::fabs(x));
        column = std::fmax(column, std::fabs(y));
      }
    }
    for (std::int64_t at = 0; at < side * side; ++at) {
      const double* const x = &a[static_cast<std::size_t>(at / side * k)];
      const double* const y = &b[static_cast<std::size_t>(at % side * k)];
      double sum = 0;
      double size = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        sum += x[i] * y[i];
        size += std::fabs(x[i] * y[i]);
      }
      exact.push_back(sum);
      magnitude.push_back(size);
    }
  }

  // Returns the errors of D as it is now.
  Error ErrorOfD() const {
    Error error;
    for (std::size_t at = 0; at < exact.size(); ++at) {
      const double relative = std::fabs(ValueAt(at) - exact[at]) / magnitude[at] * 0x1p24;
      if (!(relative <= error.largest)) error.largest = relative;
      error.square += relative * relative;
      ++error.count;
    }
    return error;
  }

  // |D - exact| over what sm90/f32_f16x3 promises (kernels/hopper/f16x3/f16x3_registry.h), the
  // largest.
  double LargestOfF16x3Bound() const {
    double largest = 0;
    for (std::size_t at = 0; at < exact.size(); ++at) {
      const auto n = static_cast<std::size_t>(run.problem.n);
      const double bound =
          85 * 0x1p-24 * magnitude[at] + 0x1p-38 * static_cast<double>(run.problem.k) *
                                             row_largest[at / n] * column_largest[at % n];
      const double share = std::fabs(ValueAt(at) - exact[at]) / bound;
      if (!(share <= largest)) largest = share;
    }
    return largest;
  }

  double ValueAt(std::size_t at) const {
    const auto i = static_cast<std::int64_t>(at);
    return run.D(i / run.problem.n, i % run.problem.n);
  }

  F32Run run;
  std::vector<double> exact;
  std::vector<double> magnitude;  // |A| |B|
  std::vector<double> row_largest;
  std::vector<double> column_largest;
};

}  // namespace gemmd::testing
