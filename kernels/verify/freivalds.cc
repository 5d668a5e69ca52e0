#include "kernels/verify/freivalds.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/operand_view.h"
#include "kernels/dequantize/dequantized_problem.h"
#include "kernels/verify/quantized_elements.h"
#include "kernels/verify/weighted_sums.h"

namespace gemmd {
namespace {

constexpr double kDeviations = 6;
constexpr double kVanishingShare = 0x1p-100;  // of a line's largest scale
constexpr std::int64_t kRowsOfBlock = 64;     // of what one thread does at a time

// The rounding of D's type.
struct OutputRounding {
  double unit_roundoff = 0;
  double smallest = 0;  // what rounding near zero loses at most
  double largest = std::numeric_limits<double>::infinity();
};

OutputRounding RoundingOf(DataType type) {
  switch (type) {
    case DataType::kF64:
      return {0x1p-53, DBL_MIN, DBL_MAX};
    case DataType::kF16:
      return {0x1p-11, 0x1p-24, 65504};
    case DataType::kBf16:
      return {0x1p-8, FLT_MIN, 0x1.fep127};
    case DataType::kInt32:
      return {0, 0, 2147483647};
    default:
      return {0x1p-24, FLT_MIN, FLT_MAX};
  }
}

double LargestAccumulated(DataType type) {
  return type == DataType::kF64 ? DBL_MAX : FLT_MAX;  // of an int32 every row is finite
}

// SplitMix64 (Steele, Lea, Flood 2014).
class RandomSigns {
 public:
  explicit RandomSigns(std::uint64_t seed) : state_(seed) {}

  template <typename Real>
  std::vector<Real> Vector(std::int64_t size) {
    std::vector<Real> signs(size);
    std::uint64_t bits = 0;
    for (std::int64_t i = 0; i < size; ++i, bits >>= 1U) {
      if (i % 64 == 0) bits = Next();
      signs[i] = (bits & 1U) != 0 ? 1 : -1;
    }
    return signs;
  }

 private:
  std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  std::uint64_t state_;
};

MatrixSpan Span(const MatrixLayout& layout, const void* data) {
  return {layout.type,           data, layout.rows, layout.columns, layout.row_stride(),
          layout.column_stride()};
}

// The scale that multiplies a whole line, of operands that are not decoded.
template <typename Real>
Real ScaleAt(const Scaling& scaling, const void* scales, std::int64_t index) {
  if (!scaling.has_scales) return 1;
  return static_cast<const float*>(scales)[scaling == Scaling::kVector ? index : 0];
}

template <typename Real>
class Check {
 public:
  Check(const Problem& problem, const Arguments& arguments, const VerificationOptions& options)
      : problem_(problem), arguments_(arguments), options_(options) {
    if (IsDequantized(problem)) {
      if (IsQuantizedType(problem.a.type)) a_.emplace(ViewOfA(problem, arguments));
      if (IsQuantizedType(problem.b.type)) b_.emplace(ViewOfB(problem, arguments));
      scaling_of_a_ = scaling_of_b_ = Scaling::kNone;  // which values have already
    }
    RandomSigns random(options.seed);
    for (int v = 0; v < options.vectors; ++v) x_.push_back(random.Vector<Real>(problem.n));
  }

  double Residual() const {
    const Epilogue& epilogue = problem_.epilogue;
    const SumsOfRows<Real> product = Product();
    const SumsOfRows<Real> d = Times(Span(problem_.d, arguments_.d), x_, Gauge::kSquare, Ones());
    SumsOfRows<Real> c;
    if (epilogue.beta != 0) {
      c = Times(Span(problem_.c, arguments_.c), x_, Gauge::kSquare, Ones());
    }
    SumsOfRows<Real> bias;
    if (epilogue.has_bias) {
      const MatrixSpan row{problem_.d.type, arguments_.bias, 1, problem_.n, problem_.n, 1};
      bias = Times(row, x_, Gauge::kSquare, Ones());
    }
    double residual = 0;
    for (std::int64_t row = 0; row < problem_.m; ++row) {
      const Real factor = static_cast<Real>(epilogue.alpha) *
                          ScaleAt<Real>(scaling_of_a_, arguments_.a_scales, row);
      Row each;
      each.accumulated = product.gauge[row];
      each.magnitude = std::abs(factor) * product.gauge[row];
      if (epilogue.beta != 0) {
        each.magnitude += std::abs(static_cast<Real>(epilogue.beta)) * std::sqrt(c.gauge[row]);
      }
      if (epilogue.has_bias) each.magnitude += std::sqrt(bias.gauge[0]);
      each.norm = std::sqrt(d.gauge[row]);
      for (std::size_t v = 0; v < x_.size(); ++v) {
        Real expected = factor * product.sums[v][row];
        if (epilogue.beta != 0) expected += static_cast<Real>(epilogue.beta) * c.sums[v][row];
        if (epilogue.has_bias) expected += bias.sums[v][0];
        each.difference = std::max(each.difference, std::abs(d.sums[v][row] - expected));
      }
      residual = std::max(residual, Judge(each));
    }
    return residual;
  }

 private:
  struct Row {
    Real difference = 0;   // the largest of the vectors'
    Real norm = 0;         // of D's row
    Real magnitude = 0;    // s_i
    Real accumulated = 0;  // the same of the sum of products alone, before alpha and scales
  };

  std::vector<Real> Ones() const { return std::vector<Real>(problem_.n, 1); }

  SumsOfRows<Real> Times(const MatrixSpan& matrix, const std::vector<std::vector<Real>>& vectors,
                         Gauge gauge, const std::vector<Real>& gauge_weights) const {
    SumsOfRows<Real> result;
    result.sums.assign(vectors.size(), std::vector<Real>(matrix.rows));
    result.gauge.resize(matrix.rows);
    const std::int64_t blocks = CeilOfRatio(matrix.rows, kRowsOfBlock);
    const auto block = [&](int, std::int64_t index) {
      const std::int64_t begin = index * kRowsOfBlock;
      SumRows(matrix, vectors, gauge, gauge_weights, begin,
              std::min(matrix.rows, begin + kRowsOfBlock), &result);
    };
    if (options_.executor != nullptr) {
      options_.executor->Run(blocks, block);
    } else {
      for (std::int64_t index = 0; index < blocks; ++index) block(0, index);
    }
    return result;
  }

  // op(A) (op(B) x), and as gauge sum_k |op(A)_ik| ||op(B)_k||, without A's scales and alpha.
  SumsOfRows<Real> Product() const {
    std::vector<std::vector<Real>> scaled = x_;
    std::vector<Real> squares = Ones();
    for (std::int64_t j = 0; j < problem_.n; ++j) {
      const Real scale = ScaleAt<Real>(scaling_of_b_, arguments_.b_scales, j);
      for (std::vector<Real>& x : scaled) x[j] *= scale;
      squares[j] = scale * scale;
    }
    const MatrixSpan b{problem_.b.type,
                       arguments_.b,
                       problem_.k,
                       problem_.n,
                       problem_.b_inner_stride(),
                       problem_.b_column_stride(),
                       b_.has_value() ? &*b_ : nullptr,
                       false,
                       kVanishingShare};
    SumsOfRows<Real> bx = Times(b, scaled, Gauge::kSquare, squares);
    for (Real& square : bx.gauge) square = std::sqrt(square);
    const MatrixSpan a{problem_.a.type,
                       arguments_.a,
                       problem_.m,
                       problem_.k,
                       problem_.a_row_stride(),
                       problem_.a_inner_stride(),
                       a_.has_value() ? &*a_ : nullptr,
                       true,
                       kVanishingShare};
    return Times(a, bx.sums, Gauge::kAbsolute, bx.gauge);
  }

  double Judge(const Row& row) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const OutputRounding rounding = RoundingOf(problem_.d.type);
    const bool d_is_finite = std::isfinite(row.norm);
    if (!std::isfinite(row.magnitude)) {
      return !d_is_finite || problem_.epilogue.alpha == 0 ? 0 : kInfinity;
    }
    if (!d_is_finite) {
      const bool may_overflow = row.magnitude >= rounding.largest ||
                                row.accumulated >= LargestAccumulated(problem_.accumulate);
      return may_overflow ? 0 : kInfinity;
    }
    const auto loss = static_cast<Real>(AccumulationLoss(problem_, options_.accuracy));
    const Real explained =
        kDeviations * (rounding.unit_roundoff * row.norm + loss * row.magnitude +
                       rounding.smallest * std::sqrt(static_cast<Real>(problem_.n)));
    if (row.difference == 0) return 0;
    return static_cast<double>(row.difference / explained);
  }

  const Problem& problem_;
  const Arguments& arguments_;
  const VerificationOptions& options_;
  // Operands that kernels decode.
  std::optional<QuantizedElements> a_;
  std::optional<QuantizedElements> b_;
  Scaling scaling_of_a_ = problem_.a_scaling;
  Scaling scaling_of_b_ = problem_.b_scaling;
  std::vector<std::vector<Real>> x_;
};

}  // namespace

bool CanVerify(const Problem& problem) { return problem.epilogue.activation == Activation::kNone; }

double VerificationResidual(const Problem& problem, const Arguments& arguments,
                            const VerificationOptions& options) {
  // The squares of large and small f64 leave the range of f64.
  if (problem.a.type == DataType::kF64) {
    return Check<long double>(problem, arguments, options).Residual();
  }
  return Check<double>(problem, arguments, options).Residual();
}

}  // namespace gemmd
