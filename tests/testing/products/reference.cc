#include "tests/testing/products/reference.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "kernels/cpu/epilogue.h"

namespace gemmd {
namespace {

template <typename T>
T Load(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof value);
  return value;
}

template <typename T>
void Store(void* data, std::int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * sizeof(T), &value, sizeof value);
}

std::int64_t Index(const MatrixLayout& layout, std::int64_t row, std::int64_t column) {
  return row * layout.row_stride() + column * layout.column_stride();
}

double Scale(const Scaling& scaling, const void* scales, std::int64_t index) {
  if (scaling == Scaling::kNone) return 1;
  return static_cast<const float*>(scales)[scaling == Scaling::kVector ? index : 0];
}

}  // namespace

double LoadElement(const MatrixLayout& layout, const void* data, std::int64_t row,
                   std::int64_t column) {
  const std::int64_t index = Index(layout, row, column);
  switch (layout.type) {
    case DataType::kF64:
      return Load<double>(data, index);
    case DataType::kF32:
    case DataType::kTf32:
      return Load<float>(data, index);
    case DataType::kF16:
      return FromF16(Load<std::uint16_t>(data, index));
    case DataType::kBf16:
      return FromBf16(Load<std::uint16_t>(data, index));
    case DataType::kInt8:
      return Load<std::int8_t>(data, index);
    case DataType::kInt32:
      return Load<std::int32_t>(data, index);
    case DataType::kFp8E4M3:
      return FromFp8E4M3(Load<std::uint8_t>(data, index));
    case DataType::kFp8E5M2:
      return FromFp8E5M2(Load<std::uint8_t>(data, index));
    default:
      return std::nan("");
  }
}

void StoreElement(const MatrixLayout& layout, void* data, std::int64_t row, std::int64_t column,
                  double value) {
  const std::int64_t index = Index(layout, row, column);
  switch (layout.type) {
    case DataType::kF64:
      return Store(data, index, value);
    case DataType::kF32:
    case DataType::kTf32:
      return Store(data, index, static_cast<float>(value));
    case DataType::kF16:
      return Store(data, index, ToF16(static_cast<float>(value)));
    case DataType::kBf16:
      return Store(data, index, ToBf16(static_cast<float>(value)));
    case DataType::kInt8:
      return Store(data, index, static_cast<std::int8_t>(value));
    case DataType::kInt32:
      return Store(data, index, static_cast<std::int32_t>(value));
    case DataType::kFp8E4M3:
      return Store(data, index, ToFp8E4M3(static_cast<float>(value)));
    case DataType::kFp8E5M2:
      return Store(data, index, ToFp8E5M2(static_cast<float>(value)));
    default:
      return;
  }
}

double Activate(Activation activation, double x) { return ActivateAs<double>(activation, x); }

ReferenceResult ReferenceGemm(const Problem& problem, const Arguments& arguments) {
  const Epilogue& e = problem.epilogue;
  const MatrixLayout bias_layout{problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
  ReferenceResult result;
  result.d.reserve(problem.m * problem.n);
  result.magnitude.reserve(problem.m * problem.n);
  for (std::int64_t row = 0; row < problem.m; ++row) {
    for (std::int64_t column = 0; column < problem.n; ++column) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t inner = 0; inner < problem.k; ++inner) {
        const double a = problem.transpose_a ? LoadElement(problem.a, arguments.a, inner, row)
                                             : LoadElement(problem.a, arguments.a, row, inner);
        const double b = problem.transpose_b ? LoadElement(problem.b, arguments.b, column, inner)
                                             : LoadElement(problem.b, arguments.b, inner, column);
        sum += a * b;
        magnitude += std::abs(a * b);
      }
      const double factor = e.alpha * Scale(problem.a_scaling, arguments.a_scales, row) *
                            Scale(problem.b_scaling, arguments.b_scales, column);
      sum *= factor;
      magnitude *= std::abs(factor);
      if (e.beta != 0) {
        const double c = e.beta * LoadElement(problem.c, arguments.c, row, column);
        sum += c;
        magnitude += std::abs(c);
      }
      if (e.has_bias) {
        const double bias = LoadElement(bias_layout, arguments.bias, 0, column);
        sum += bias;
        magnitude += std::abs(bias);
      }
      result.d.push_back(Activate(e.activation, sum));
      result.magnitude.push_back(magnitude);
    }
  }
  return result;
}

}  // namespace gemmd
