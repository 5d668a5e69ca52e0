// Runs a registry entry of the Hopper GEMM in the emulator, on planes of any layout.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "kernels/hopper/half/tilings.h"
#include "tests/kernels/emulator/half_matrix.h"
#include "tests/kernels/hopper/common/plane.h"

namespace gemmd::testing {

inline constexpr auto kHopperEntries = [] {
  std::array<const char*, hopper::half::kTilingCount> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = hopper::half::kTilings[i].name;
  return names;
}();

struct HopperCase {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  DataType type = DataType::kBf16;
  bool transpose_a = false;
  bool transpose_b = false;
  bool writes_f32 = false;
  Order d_order = Order::kRowMajor;
  Epilogue epilogue = {};
  // Elements between the lines where 0 or more; else lines start at multiples of 16 bytes.
  int gap = -1;
};

// C lies as D does.
inline Problem MakeHopperProblem(const HopperCase& c) {
  Problem problem = MakeProblem(c.m, c.n, c.k, c.type, c.writes_f32 ? DataType::kF32 : c.type,
                                c.transpose_a, c.transpose_b);
  problem.epilogue = c.epilogue;
  problem.d.order = c.d_order;
  problem.c = problem.d;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    const std::int64_t unit = 128 / SizeBits(layout->type);
    layout->leading_dimension =
        c.gap >= 0 ? layout->inner() + c.gap : (layout->inner() + unit - 1) / unit * unit;
  }
  return problem;
}

inline ProductForm FormOf(DataType type) {
  return type == DataType::kBf16 ? ProductForm::kBf16AccumulateF32 : ProductForm::kF16AccumulateF32;
}

// A problem with its planes. Logical A and B are the same whatever their layouts.
struct HopperRun {
  explicit HopperRun(const HopperCase& c)
      : problem(MakeHopperProblem(c)),
        a(c.m, c.k),
        b(c.k, c.n),
        a_plane(problem.a),
        b_plane(problem.b),
        c_plane(problem.c),
        d_plane(problem.d),
        bias(static_cast<std::size_t>(c.n) * 4) {
    a.FillRandom(FormatOf(FormOf(c.type)), 1);
    b.FillRandom(FormatOf(FormOf(c.type)), 2);
    for (std::int64_t i = 0; i < c.k; ++i) {
      for (std::int64_t row = 0; row < c.m; ++row) {
        a_plane.Set(c.transpose_a ? i : row, c.transpose_a ? row : i, a.At(row, i));
      }
      for (std::int64_t column = 0; column < c.n; ++column) {
        b_plane.Set(c.transpose_b ? column : i, c.transpose_b ? i : column, b.At(i, column));
      }
    }
    for (std::int64_t column = 0; column < c.n; ++column) {
      SetBias(column, static_cast<float>(column % 7) - 3);
      for (std::int64_t row = 0; row < c.m; ++row) {
        SetElement(&c_plane, row, column, static_cast<float>((row * 3 + column) % 11) / 4 - 1);
      }
    }
  }

  // Values that f16, bf16 and f32 all have.
  void SetElement(Plane* plane, std::int64_t row, std::int64_t column, float value) const {
    if (problem.d.type == DataType::kF32) {
      plane->Set(row, column, value);
    } else {
      plane->Set(row, column, emulator::Narrow(FormatOf(FormOf(problem.d.type)), value));
    }
  }
  void SetBias(std::int64_t column, float value) {
    const auto i = static_cast<std::size_t>(column);
    if (problem.d.type == DataType::kF32) {
      std::memcpy(&bias[4 * i], &value, 4);
    } else {
      const std::uint16_t half = emulator::Narrow(FormatOf(FormOf(problem.d.type)), value);
      std::memcpy(&bias[2 * i], &half, 2);
    }
  }

  emulator::Report Launch(const char* name, const emulator::Options& options) {
    DeviceTraits device;
    device.kind = DeviceKind::kEmulated;
    return Launch(name, BuiltinRegistry().Find(name)->Configure(problem, device), options);
  }
  emulator::Report Launch(const char* name, const Config& config,
                          const emulator::Options& options) {
    Arguments arguments;
    arguments.a = a_plane.data();
    arguments.b = b_plane.data();
    arguments.c = c_plane.data();
    arguments.bias = bias.data();
    arguments.d = d_plane.data();
    arguments.a_is_settled = a_is_settled;
    arguments.b_is_settled = b_is_settled;
    const Kernel& kernel = *BuiltinRegistry().Find(name);
    const MatrixLayout scratch = {
        DataType::kInt8, 1, static_cast<std::int64_t>(kernel.WorkspaceBytes(problem, config)) + 1};
    Plane workspace(scratch);
    arguments.workspace = workspace.data();
    emulator::Session session;
    session.options = options;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = kernel.Launch(problem, config, arguments, target);
    if (!status.ok() && session.report.ok()) session.report.message = status.ToString();
    return session.report;
  }

  // Elements of D that differ from the sums a tensor core gives, rounded once.
  std::int64_t CountWrong() const {
    return CountDifferentFrom(ExactProduct(FormOf(problem.a.type), a, b, false));
  }
  std::int64_t CountDifferentFrom(const std::vector<std::uint16_t>& expected) const {
    const emulator::HalfFormat format = FormatOf(FormOf(problem.a.type));
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        const std::uint16_t got = problem.d.type == DataType::kF32
                                      ? emulator::Narrow(format, d_plane.Get<float>(row, column))
                                      : d_plane.Get<std::uint16_t>(row, column);
        wrong += got != expected[static_cast<std::size_t>(row * problem.n + column)];
      }
    }
    return wrong;
  }

  Problem problem;
  HalfMatrix a;
  HalfMatrix b;
  Plane a_plane;
  Plane b_plane;
  Plane c_plane;
  Plane d_plane;
  std::vector<unsigned char> bias;
  bool a_is_settled = false;
  bool b_is_settled = false;
};

}  // namespace gemmd::testing
