// A problem of 8-bit operands with its planes in the emulator, and what bits D should have.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/numbers/float_bits.h"
#include "kernels/emulator/arithmetic/byte_product.h"
#include "kernels/emulator/session.h"
#include "kernels/kernel.h"
#include "tests/kernels/hopper/common/plane.h"

namespace gemmd::testing {

struct ByteCase {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  DataType a = DataType::kInt8;
  DataType b = DataType::kInt8;
  DataType d = DataType::kInt32;
  Scaling a_scaling = Scaling::kNone;
  Scaling b_scaling = Scaling::kNone;
  Order d_order = Order::kRowMajor;
  Epilogue epilogue = {};
};

inline bool IsInt8(const ByteCase& c) { return c.a == DataType::kInt8; }

// Operands have neighbours along K, lines start at multiples of 16 bytes.
inline Problem MakeByteProblem(const ByteCase& c) {
  Problem problem = MakeProblem(c.m, c.n, c.k, c.a, c.d, false, true);
  problem.b.type = c.b;
  problem.accumulate = IsInt8(c) ? DataType::kInt32 : DataType::kF32;
  problem.a_scaling = c.a_scaling;
  problem.b_scaling = c.b_scaling;
  problem.epilogue = c.epilogue;
  problem.d.order = c.d_order;
  problem.c = problem.d;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->leading_dimension = (layout->inner() + 15) / 16 * 16 + 16;
  }
  return problem;
}

// Codes of every kind but NaN and infinities, the same wherever they are asked for.
inline std::uint8_t CodeOf(DataType type, std::uint32_t seed, std::int64_t line, std::int64_t k) {
  auto x = static_cast<std::uint32_t>(line * 2654435761 + k * 40503 + seed * 97);
  x ^= x >> 16;
  x *= 0x85ebca6b;
  x ^= x >> 13;
  const auto code = static_cast<std::uint8_t>(x >> 11);
  const bool is_nan = type == DataType::kFp8E4M3 ? (code & 0x7f) == 0x7f : (code & 0x7c) == 0x7c;
  return type != DataType::kInt8 && is_nan ? 0x3a : code;
}

inline float ScaleAt(std::uint32_t seed, std::size_t i) {
  return std::ldexp(1.0F + static_cast<float>((i * 7 + seed) % 13) / 16.0F,
                    -static_cast<int>(i % 5));
}

struct ByteRun {
  explicit ByteRun(const ByteCase& its)
      : c(its),
        problem(MakeByteProblem(its)),
        a_plane(problem.a),
        b_plane(problem.b),
        c_plane(problem.c),
        d_plane(problem.d),
        a_scales(Scales(c.a_scaling, c.m, 1)),
        b_scales(Scales(c.b_scaling, c.n, 2)) {
    for (std::int64_t i = 0; i < c.k; ++i) {
      for (std::int64_t row = 0; row < c.m; ++row) a_plane.Set(row, i, CodeOf(c.a, 1, row, i));
      for (std::int64_t column = 0; column < c.n; ++column) {
        b_plane.Set(column, i, CodeOf(c.b, 2, column, i));
      }
    }
  }

  std::vector<float> Scales(const Scaling& scaling, std::int64_t lines, std::uint32_t seed) const {
    std::vector<float> scales(static_cast<std::size_t>(scaling.count(lines, c.k)));
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = ScaleAt(seed, i);
    return scales;
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
    arguments.a_scales = a_scales.empty() ? nullptr : a_scales.data();
    arguments.b_scales = b_scales.empty() ? nullptr : b_scales.data();
    arguments.a_is_settled = settles;
    arguments.b_is_settled = settles;
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = launch(arguments, target);
    if (!status.ok() && session.report.ok()) session.report.message = status.ToString();
    return session.report;
  }

  // ---------------------------------------------------------------- the model

  using Line = std::vector<emulator::ByteLine>;

  Line LineOf(const Plane& plane, std::int64_t line) const {
    Line blocks(static_cast<std::size_t>((c.k + 31) / 32), emulator::ByteLine{});
    for (std::int64_t i = 0; i < c.k; ++i) {
      blocks[static_cast<std::size_t>(i / 32)][static_cast<std::size_t>(i % 32)] =
          plane.Get<std::uint8_t>(line, i);
    }
    return blocks;
  }

  float ScaleOfBlock(const Scaling& scaling, const std::vector<float>& scales, std::int64_t lines,
                     std::int64_t line, std::int64_t k) const {
    return scales[static_cast<std::size_t>(scaling.index(lines, c.k, line, k))];
  }

  static emulator::FactorFormat FormatOf(DataType type) {
    return type == DataType::kFp8E4M3 ? emulator::FactorFormat::kE4m3
                                      : emulator::FactorFormat::kE5m2;
  }

  // The sum of bytes_registry.h, blocks' scales applied.
  float FloatSum(const Line& a, const Line& b, std::int64_t row, std::int64_t column) const {
    const emulator::FactorFormat a_format = FormatOf(c.a);
    const emulator::FactorFormat b_format = FormatOf(c.b);
    const int bits = emulator::FractionBits(a_format) + emulator::FractionBits(b_format);
    const bool has_blocks = !c.a_scaling.scales_whole_lines();
    float total = 0;
    for (std::size_t block = 0; block < a.size(); block += 4) {
      float part = 0;
      for (std::size_t step = block; step < block + 4 && step < a.size(); ++step) {
        part = emulator::AddFloatProducts(part, emulator::PrepareFloatLine(a_format, a[step]),
                                          emulator::PrepareFloatLine(b_format, b[step]), bits);
      }
      float scale = 1;
      if (has_blocks) {
        const auto k = static_cast<std::int64_t>(block) * 32;
        scale = ScaleOfBlock(c.a_scaling, a_scales, c.m, row, k) *
                ScaleOfBlock(c.b_scaling, b_scales, c.n, column, k);
      }
      total = std::fma(part, scale, total);
    }
    return total;
  }

  std::int32_t IntegerSum(const Line& a, const Line& b) const {
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum = emulator::AddIntegerProducts(sum, a[i], true, b[i], true);
    }
    return sum;
  }

  std::uint32_t Narrow(float value) const {
    if (c.d == DataType::kF16) return ToF16(value);
    if (c.d == DataType::kBf16) return ToBf16(value);
    return BitsOf(value);
  }

  // Without an epilogue.
  std::uint32_t ExpectedBits(const Line& a, const Line& b, std::int64_t row,
                             std::int64_t column) const {
    if (c.d == DataType::kInt32) return static_cast<std::uint32_t>(IntegerSum(a, b));
    return Narrow(Scaled(a, b, row, column));
  }
  float Scaled(const Line& a, const Line& b, std::int64_t row, std::int64_t column) const {
    float sum = IsInt8(c) ? static_cast<float>(IntegerSum(a, b)) : FloatSum(a, b, row, column);
    if (c.a_scaling.scales_whole_lines() && c.a_scaling.has_scales) {
      sum *= ScaleOfBlock(c.a_scaling, a_scales, c.m, row, 0);
    }
    if (c.b_scaling.scales_whole_lines() && c.b_scaling.has_scales) {
      sum *= ScaleOfBlock(c.b_scaling, b_scales, c.n, column, 0);
    }
    return sum;
  }

  std::uint32_t BitsAt(std::int64_t row, std::int64_t column) const {
    if (SizeBits(c.d) == 16) return d_plane.Get<std::uint16_t>(row, column);
    return d_plane.Get<std::uint32_t>(row, column);
  }

  // Calls f(row, column, line of A, line of B) for each element of D.
  template <class F>
  void ForEach(const F& f) const {
    std::vector<Line> columns;
    for (std::int64_t column = 0; column < c.n; ++column) {
      columns.push_back(LineOf(b_plane, column));
    }
    for (std::int64_t row = 0; row < c.m; ++row) {
      const Line line = LineOf(a_plane, row);
      for (std::int64_t column = 0; column < c.n; ++column) {
        f(row, column, line, columns[static_cast<std::size_t>(column)]);
      }
    }
  }

  std::int64_t CountWrong() const {
    std::int64_t wrong = 0;
    ForEach([&](std::int64_t row, std::int64_t column, const Line& a, const Line& b) {
      wrong += BitsAt(row, column) != ExpectedBits(a, b, row, column);
    });
    return wrong;
  }

  ByteCase c;
  Problem problem;
  Plane a_plane;
  Plane b_plane;
  Plane c_plane;
  Plane d_plane;
  std::vector<float> a_scales;
  std::vector<float> b_scales;
  std::vector<float> bias;  // of f32
  bool settles = false;     // no launch ahead writes the operands
};

}  // namespace gemmd::testing
