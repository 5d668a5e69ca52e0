#include "tests/kernels/cublaslt/landed.h"

#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/testing/products/reference.h"

namespace gemmd::testing {
namespace {

constexpr char kPoison = static_cast<char>(0xA5);

bool IsFp8(DataType type) { return type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2; }

// fp8 by the vendor's own conversions.
__nv_fp8_interpretation_t Format(DataType type) {
  return type == DataType::kFp8E4M3 ? __NV_E4M3 : __NV_E5M2;
}

PlaneBytes RandomScales(std::int64_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(0.25F, 2);
  PlaneBytes plane(static_cast<std::size_t>(count) * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    const float scale = uniform(generator);
    std::memcpy(plane.data() + static_cast<std::size_t>(i) * sizeof scale, &scale, sizeof scale);
  }
  return plane;
}

double Scale(Scaling scaling, const PlaneBytes& scales, std::int64_t i) {
  if (scaling == Scaling::kNone) return 1;
  float scale;
  std::memcpy(&scale,
              scales.data() + static_cast<std::size_t>(scaling == Scaling::kVector ? i : 0) * 4, 4);
  return scale;
}

std::int64_t Aligned(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void PadLines(MatrixLayout* layout) {
  layout->leading_dimension = Aligned(layout->inner(), 128 / SizeBits(layout->type));
}

// Whole lines of zeros, or of poison.
PlaneBytes Filled(const MatrixLayout& layout, char value) {
  return PlaneBytes(static_cast<std::size_t>(layout.outer() * layout.leading_dimension *
                                             SizeBits(layout.type) / 8),
                    value);
}

// Elements of the smaller of the two, by their bits.
void Copy(const MatrixLayout& from, const PlaneBytes& bytes, const MatrixLayout& to, bool transpose,
          PlaneBytes* out) {
  const auto size = static_cast<std::size_t>(SizeBits(from.type) / 8);
  const std::int64_t rows = std::min(from.rows, transpose ? to.columns : to.rows);
  const std::int64_t columns = std::min(from.columns, transpose ? to.rows : to.columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t index = row * from.row_stride() + column * from.column_stride();
      const std::int64_t target = transpose ? column * to.row_stride() + row * to.column_stride()
                                            : row * to.row_stride() + column * to.column_stride();
      std::memcpy(out->data() + static_cast<std::size_t>(target) * size,
                  bytes.data() + static_cast<std::size_t>(index) * size, size);
    }
  }
}

PlaneBytes Extended(const PlaneBytes& plane, std::int64_t elements, DataType type) {
  PlaneBytes out = plane;
  out.resize(static_cast<std::size_t>(elements * SizeBits(type) / 8), 0);
  return out;
}

// K-major, padded: A as m x k row-major, B as n x k row-major and transposed.
void LandBytes(const HostProblem& from, HostProblem* to) {
  Problem& p = to->problem;
  if (p.d.order == Order::kRowMajor) p.n = Aligned(p.n, 16);
  if (p.d.order == Order::kColumnMajor) p.m = Aligned(p.m, 16);
  p.k = Aligned(p.k, 16);
  p.a = {p.a.type, p.m, p.k, Order::kRowMajor, p.k};
  p.b = {p.b.type, p.n, p.k, Order::kRowMajor, p.k};
  p.transpose_a = false;
  p.transpose_b = true;
  for (MatrixLayout* layout : {&p.c, &p.d}) {
    layout->rows = p.m;
    layout->columns = p.n;
    PadLines(layout);
  }
  to->a = Filled(p.a, 0);
  to->b = Filled(p.b, 0);
  Copy(from.problem.a, from.a, p.a, from.problem.transpose_a, &to->a);
  Copy(from.problem.b, from.b, p.b, !from.problem.transpose_b, &to->b);
}

}  // namespace

double Value(const MatrixLayout& layout, const PlaneBytes& plane, std::int64_t row,
             std::int64_t column) {
  if (!IsFp8(layout.type)) return LoadElement(layout, plane.data(), row, column);
  const auto bits = static_cast<__nv_fp8_storage_t>(
      plane[static_cast<std::size_t>(row * layout.row_stride() + column * layout.column_stride())]);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, Format(layout.type))));
}

PlaneBytes RandomValues(const MatrixLayout& layout, std::uint32_t seed) {
  if (!IsFp8(layout.type)) return RandomPlane(layout, Distribution::kNormal, seed);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  PlaneBytes plane = PoisonedPlane(layout);
  for (std::int64_t line = 0; line < layout.outer(); ++line) {
    for (std::int64_t i = 0; i < layout.inner(); ++i) {
      plane[static_cast<std::size_t>(line * layout.leading_dimension + i)] = static_cast<char>(
          __nv_cvt_float_to_fp8(normal(generator), __NV_SATFINITE, Format(layout.type)));
    }
  }
  return plane;
}

HostProblem RandomProblem(const Problem& problem, std::uint32_t seed) {
  HostProblem host;
  host.problem = problem;
  host.a = RandomValues(problem.a, seed);
  host.b = RandomValues(problem.b, seed + 1);
  if (problem.epilogue.beta != 0) host.c = RandomValues(problem.c, seed + 2);
  if (problem.epilogue.has_bias) {
    host.bias = RandomValues({problem.d.type, 1, problem.n, Order::kRowMajor, problem.n}, seed + 3);
  }
  host.d = PoisonedPlane(problem.d);
  host.a_scales = RandomScales(problem.m, seed + 4);
  host.b_scales = RandomScales(problem.n, seed + 5);
  return host;
}

HostProblem Land(const HostProblem& from) {
  HostProblem to;
  to.problem = from.problem;
  Problem& p = to.problem;
  if (SizeBits(p.a.type) == 8) {
    LandBytes(from, &to);
  } else {
    for (MatrixLayout* layout : {&p.a, &p.b, &p.c, &p.d}) PadLines(layout);
    to.a = Filled(p.a, 0);
    to.b = Filled(p.b, 0);
    Copy(from.problem.a, from.a, p.a, false, &to.a);
    Copy(from.problem.b, from.b, p.b, false, &to.b);
  }
  if (p.epilogue.beta != 0) {
    to.c = Filled(p.c, 0);
    Copy(from.problem.c, from.c, p.c, false, &to.c);
  }
  to.bias = Extended(from.bias, p.epilogue.has_bias ? p.n : 0, p.d.type);
  to.a_scales = Extended(from.a_scales, p.m, DataType::kF32);
  to.b_scales = Extended(from.b_scales, p.n, DataType::kF32);
  to.d = Filled(p.d, kPoison);
  return to;
}

void Leave(const HostProblem& landed, HostProblem* to) {
  Copy(landed.problem.d, landed.d, to->problem.d, false, &to->d);
}

double WorstError(const HostProblem& host, const ErrorBound& bound) {
  // The operands' values with their scales, exact in binary64.
  Problem exact = host.problem;
  exact.a.type = DataType::kF64;
  exact.b.type = DataType::kF64;
  PlaneBytes a = PoisonedPlane(exact.a);
  PlaneBytes b = PoisonedPlane(exact.b);
  const Problem& p = host.problem;
  for (std::int64_t row = 0; row < p.a.rows; ++row) {
    for (std::int64_t column = 0; column < p.a.columns; ++column) {
      const double scale = Scale(p.a_scaling, host.a_scales, p.transpose_a ? column : row);
      StoreElement(exact.a, a.data(), row, column, Value(p.a, host.a, row, column) * scale);
    }
  }
  for (std::int64_t row = 0; row < p.b.rows; ++row) {
    for (std::int64_t column = 0; column < p.b.columns; ++column) {
      const double scale = Scale(p.b_scaling, host.b_scales, p.transpose_b ? row : column);
      StoreElement(exact.b, b.data(), row, column, Value(p.b, host.b, row, column) * scale);
    }
  }
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.c = host.c.data();
  arguments.bias = host.bias.data();
  const ReferenceResult reference = ReferenceGemm(exact, arguments);
  const DataType out = p.d.type;
  const double ulp = out == DataType::kF64   ? 0x1p-53
                     : out == DataType::kF32 ? 0x1p-24
                     : out == DataType::kF16 ? 0x1p-11
                                             : 0x1p-8;
  const double slope = p.epilogue.activation == Activation::kNone ? 1 : 1.13;
  const bool is_gelu = p.epilogue.activation == Activation::kGeluTanh;
  const bool rounds_twice = bound.rounds_before_bias &&
                            (p.epilogue.has_bias || p.epilogue.activation != Activation::kNone) &&
                            p.d.type == p.a.type && p.accumulate == DataType::kF32;
  double worst = 0;
  for (std::int64_t row = 0; row < p.m; ++row) {
    for (std::int64_t column = 0; column < p.n; ++column) {
      const auto i = static_cast<std::size_t>(row * p.n + column);
      const double actual = LoadElement(p.d, host.d.data(), row, column);
      const bool overflows = out == DataType::kF16 && std::fabs(reference.d[i]) > 65519;
      if (overflows && actual == std::copysign(INFINITY, reference.d[i])) continue;
      const double error = std::fabs(actual - reference.d[i]);
      if (bound.exact) {
        worst = error == 0 ? worst : INFINITY;
        continue;
      }
      const double product = bound.per_term * (static_cast<double>(p.k) + 4) + bound.fixed;
      const double limit = slope * product * reference.magnitude[i] +
                           ulp * std::fabs(reference.d[i]) * slope +
                           (is_gelu ? bound.gelu : 0) * reference.magnitude[i] +
                           (rounds_twice ? ulp * reference.magnitude[i] : 0) +
                           (out == DataType::kF16 ? 0x1p-24 : 0x1p-149);
      worst = error <= limit * 1e6 ? std::max(worst, error / limit) : INFINITY;
    }
  }
  return worst;
}

}  // namespace gemmd::testing
