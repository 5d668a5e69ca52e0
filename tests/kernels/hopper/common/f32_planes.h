// A problem of the f32 product with its planes in the emulator, and what bits D should have.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/session.h"
#include "kernels/kernel.h"
#include "tests/kernels/hopper/common/plane.h"

namespace gemmd::testing {

struct F32Case {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  bool transpose_a = false;
  bool transpose_b = true;
  Order d_order = Order::kRowMajor;
  Epilogue epilogue = {};
  int a_gap = 0;  // elements between A's lines, which may start anywhere
  int b_gap = 0;  // and B's, after as many as make a multiple of 16 bytes
};

inline Problem MakeF32Problem(const F32Case& c) {
  Problem problem =
      MakeProblem(c.m, c.n, c.k, DataType::kF32, DataType::kF32, c.transpose_a, c.transpose_b);
  problem.epilogue = c.epilogue;
  problem.d.order = c.d_order;
  problem.c = problem.d;
  problem.a.leading_dimension = problem.a.inner() + c.a_gap;
  problem.b.leading_dimension = (problem.b.inner() + 3) / 4 * 4 + c.b_gap;
  problem.c.leading_dimension = problem.c.inner() + 1;
  problem.d.leading_dimension = problem.d.inner() + 3;
  return problem;
}

// Numbers of many magnitudes, the same wherever they are asked for.
inline float ElementOf(std::uint32_t seed, std::int64_t line, std::int64_t k) {
  auto x = static_cast<std::uint32_t>(line * 2654435761 + k * 40503 + seed * 97);
  x ^= x >> 16;
  x *= 0x85ebca6b;
  x ^= x >> 13;
  x *= 0xc2b2ae35;
  x ^= x >> 16;
  const float value = static_cast<float>(x & 0xffffff) / 16777216.0F - 0.5F;
  return std::ldexp(value, static_cast<int>(x >> 29));
}

// The three bf16 parts of a number, times 2^24.
struct ModelParts {
  std::uint16_t bits[3];
};
inline ModelParts PartsOf(float x) {
  ModelParts parts;
  x *= 0x1p24F;
  for (std::uint16_t& bits : parts.bits) {
    bits = emulator::Narrow(emulator::HalfFormat::kBf16, x);
    x -= emulator::Widen(emulator::HalfFormat::kBf16, bits);
  }
  return parts;
}

// A row of A or a column of B as wgmma's factors: by blocks of 32 of K, parts and steps of 16.
struct ModelBlock {
  emulator::Factors factors[3][2];
};
using ModelLine = std::vector<ModelBlock>;

inline ModelLine MakeModelLine(const std::vector<float>& line) {
  ModelLine blocks((line.size() + 31) / 32);
  for (std::size_t i = 0; i < blocks.size() * 32; ++i) {
    const ModelParts parts = PartsOf(i < line.size() ? line[i] : 0);
    for (int part = 0; part < 3; ++part) {
      blocks[i / 32].factors[part][i / 16 % 2].Set(emulator::HalfFormat::kBf16,
                                                   static_cast<int>(i % 16), parts.bits[part]);
    }
  }
  return blocks;
}

// An element of the sums, by the numerics that docs/numerics.md states.
inline float ModelElement(const ModelLine& a, const ModelLine& b) {
  constexpr int kTerms[6][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};  // of A and B
  float sum = 0;
  float rest = 0;
  for (std::size_t block = 0; block < a.size(); ++block) {
    for (const auto& term : kTerms) {
      for (int step = 0; step < 2; ++step) {
        rest = emulator::RoundToF32(emulator::AlignedSum(rest, a[block].factors[term[0]][step],
                                                         b[block].factors[term[1]][step]));
      }
    }
    const float total = sum + rest;
    rest -= total - sum;
    sum = total;
  }
  return (sum + rest) * 0x1p-48F;
}

// A problem with its planes. Logical A and B are the same whatever their layouts.
struct F32Run {
  explicit F32Run(const F32Case& c) : F32Run(c, MakeF32Problem(c)) {}
  // The case's, in other layouts or types of 32 bits.
  F32Run(const F32Case& c, const Problem& its)
      : problem(its),
        a_plane(problem.a),
        b_plane(problem.b),
        c_plane(problem.c),
        d_plane(problem.d),
        bias(static_cast<std::size_t>(c.n)) {
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t i = 0; i < c.k; ++i) SetA(row, i, ElementOf(1, row, i));
    }
    for (std::int64_t column = 0; column < c.n; ++column) {
      for (std::int64_t i = 0; i < c.k; ++i) SetB(i, column, ElementOf(2, column, i));
      bias[static_cast<std::size_t>(column)] = static_cast<float>(column % 7) - 3;
      for (std::int64_t row = 0; row < c.m; ++row) {
        c_plane.Set(row, column, static_cast<float>((row * 3 + column) % 11) / 4 - 1);
      }
    }
  }

  void SetA(std::int64_t row, std::int64_t i, float value) {
    a_plane.Set(problem.transpose_a ? i : row, problem.transpose_a ? row : i, value);
  }
  void SetB(std::int64_t i, std::int64_t column, float value) {
    b_plane.Set(problem.transpose_b ? column : i, problem.transpose_b ? i : column, value);
  }
  float A(std::int64_t row, std::int64_t i) const {
    return a_plane.Get<float>(problem.transpose_a ? i : row, problem.transpose_a ? row : i);
  }
  float B(std::int64_t i, std::int64_t column) const {
    return b_plane.Get<float>(problem.transpose_b ? column : i, problem.transpose_b ? i : column);
  }
  ModelLine RowOfA(std::int64_t row) const {
    std::vector<float> line;
    for (std::int64_t i = 0; i < problem.k; ++i) line.push_back(A(row, i));
    return MakeModelLine(line);
  }
  ModelLine ColumnOfB(std::int64_t column) const {
    std::vector<float> line;
    for (std::int64_t i = 0; i < problem.k; ++i) line.push_back(B(i, column));
    return MakeModelLine(line);
  }

  // Calls launch(arguments, target), with a workspace of `workspace_bytes`.
  template <class LaunchFunction>
  emulator::Report LaunchBy(const LaunchFunction& launch, std::uint64_t workspace_bytes,
                            const emulator::Options& options) {
    Arguments arguments;
    arguments.a = a_plane.data();
    arguments.b = b_plane.data();
    arguments.c = c_plane.data();
    arguments.bias = bias.data();
    arguments.d = d_plane.data();
    arguments.b_is_settled = b_is_settled;
    const auto size = static_cast<std::int64_t>(workspace_bytes);
    Plane workspace({DataType::kInt8, 1, size, Order::kRowMajor, size});
    arguments.workspace = workspace.data();
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = launch(arguments, target);
    if (!status.ok() && session.report.ok()) session.report.message = status.ToString();
    return session.report;
  }

  // Elements of D whose bits are not the model's, without an epilogue.
  std::int64_t CountWrong() const {
    std::vector<ModelLine> columns;
    for (std::int64_t column = 0; column < problem.n; ++column) {
      columns.push_back(ColumnOfB(column));
    }
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < problem.m; ++row) {
      const ModelLine line = RowOfA(row);
      for (std::int64_t column = 0; column < problem.n; ++column) {
        wrong += BitsAt(row, column) !=
                 Bits(ModelElement(line, columns[static_cast<std::size_t>(column)]));
      }
    }
    return wrong;
  }

  static std::uint32_t Bits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
  }
  std::uint32_t BitsAt(std::int64_t row, std::int64_t column) const {
    return d_plane.Get<std::uint32_t>(row, column);
  }
  float D(std::int64_t row, std::int64_t column) const { return d_plane.Get<float>(row, column); }

  Problem problem;
  Plane a_plane;
  Plane b_plane;
  Plane c_plane;
  Plane d_plane;
  std::vector<float> bias;
  bool b_is_settled = false;
};

}  // namespace gemmd::testing
