// A problem of the f64 product with its planes in host memory, and what bits D should have.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/emulator/session.h"
#include "kernels/kernel.h"
#include "tests/kernels/hopper/common/plane.h"

namespace gemmd::testing {

struct F64Case {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  bool transpose_a = false;
  bool transpose_b = true;
  Order d_order = Order::kRowMajor;
  Epilogue epilogue = {};
  // True if A's and B's lines start at multiples of 16 bytes.
  bool has_units = true;
};

inline Problem MakeF64Problem(const F64Case& c) {
  Problem problem =
      MakeProblem(c.m, c.n, c.k, DataType::kF64, DataType::kF64, c.transpose_a, c.transpose_b);
  problem.epilogue = c.epilogue;
  problem.d.order = c.d_order;
  problem.c = problem.d;
  for (MatrixLayout* operand : {&problem.a, &problem.b}) {
    operand->leading_dimension = operand->inner() + (operand->inner() % 2 == (c.has_units ? 1 : 0));
  }
  problem.c.leading_dimension = problem.c.inner() + 1;
  problem.d.leading_dimension = problem.d.inner() + 3;
  return problem;
}

inline double F64OfBits(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint64_t BitsOfF64(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Random bits, the same wherever they are asked for.
inline std::uint64_t BitsAtPlace(std::uint64_t seed, std::int64_t line, std::int64_t k) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(line) * 0x100000001b3u +
                    static_cast<std::uint64_t>(k) * 0xd6e8feb86659fd93u;
  for (int i = 0; i < 3; ++i) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

// Numbers of both signs and of many magnitudes, so that every addition rounds.
inline double F64Element(std::uint64_t seed, std::int64_t line, std::int64_t k) {
  const std::uint64_t bits = BitsAtPlace(seed, line, k);
  return std::ldexp(static_cast<double>(static_cast<std::int64_t>(bits)), -64) *
         std::ldexp(1.0, static_cast<int>(bits % 8));
}

// A problem with its planes. Logical A and B are the same whatever their layouts.
struct F64Run {
  explicit F64Run(const F64Case& c)
      : problem(MakeF64Problem(c)),
        a_plane(problem.a),
        b_plane(problem.b),
        c_plane(problem.c),
        d_plane(problem.d),
        bias(static_cast<std::size_t>(c.n)) {
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t i = 0; i < c.k; ++i) SetA(row, i, F64Element(1, row, i));
    }
    for (std::int64_t column = 0; column < c.n; ++column) {
      for (std::int64_t i = 0; i < c.k; ++i) SetB(i, column, F64Element(2, column, i));
      bias[static_cast<std::size_t>(column)] = Bias(column);
      for (std::int64_t row = 0; row < c.m; ++row) c_plane.Set(row, column, C(row, column));
    }
  }

  static double Bias(std::int64_t column) { return static_cast<double>(column % 7) / 3 - 1; }
  static double C(std::int64_t row, std::int64_t column) {
    return static_cast<double>((row * 3 + column) % 11) / 7 - 1;
  }

  void SetA(std::int64_t row, std::int64_t i, double value) {
    a_plane.Set(problem.transpose_a ? i : row, problem.transpose_a ? row : i, value);
  }
  void SetB(std::int64_t i, std::int64_t column, double value) {
    b_plane.Set(problem.transpose_b ? column : i, problem.transpose_b ? i : column, value);
  }
  double A(std::int64_t row, std::int64_t i) const {
    return a_plane.Get<double>(problem.transpose_a ? i : row, problem.transpose_a ? row : i);
  }
  double B(std::int64_t i, std::int64_t column) const {
    return b_plane.Get<double>(problem.transpose_b ? column : i, problem.transpose_b ? i : column);
  }
  double D(std::int64_t row, std::int64_t column) const { return d_plane.Get<double>(row, column); }

  // An element of the sums by the numerics that docs/numerics.md states.
  double Chain(std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::int64_t i = 0; i < problem.k; ++i) sum = std::fma(A(row, i), B(i, column), sum);
    return sum == 0 ? 0 : sum;
  }

  // Elements of D whose bits are not the model's, without an epilogue. One NaN is as good as
  // another.
  std::int64_t CountWrong() const {
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        const double expected = Chain(row, column);
        const double got = D(row, column);
        wrong += std::isnan(expected) ? !std::isnan(got) : BitsOfF64(got) != BitsOfF64(expected);
      }
    }
    return wrong;
  }

  // Calls launch(arguments, target).
  template <class LaunchFunction>
  emulator::Report LaunchBy(const LaunchFunction& launch, const emulator::Options& options) {
    Arguments arguments;
    arguments.a = a_plane.data();
    arguments.b = b_plane.data();
    arguments.c = c_plane.data();
    arguments.bias = bias.data();
    arguments.d = d_plane.data();
    arguments.a_is_settled = a_is_settled;
    arguments.b_is_settled = b_is_settled;
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = launch(arguments, target);
    if (!status.ok() && session.report.ok()) session.report.message = status.ToString();
    return session.report;
  }

  Problem problem;
  Plane a_plane;
  Plane b_plane;
  Plane c_plane;
  Plane d_plane;
  std::vector<double> bias;
  bool a_is_settled = false;
  bool b_is_settled = false;
};

}  // namespace gemmd::testing
