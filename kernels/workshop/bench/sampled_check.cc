#include "kernels/workshop/bench/sampled_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "base/numbers/quant/small_float.h"
#include "kernels/workshop/bench/elements.h"

namespace gemmd::bench {
namespace {

template <typename T>
T At(const char* plane, std::int64_t index) {
  T value;
  std::memcpy(&value, plane + index * static_cast<std::int64_t>(sizeof(T)), sizeof value);
  return value;
}

bool SumsInF16(const Problem& problem) { return problem.accumulate == DataType::kF16; }

// Half a unit in the last place, relative.
double OutputRounding(DataType type) {
  switch (type) {
    case DataType::kF64:
      return 0x1p-53;
    case DataType::kF16:
      return 0x1p-11;
    case DataType::kBf16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

// Products of fp8 are summed, but for those with scales of MX, with fewer bits than an f32 has.
bool HasShortSums(const Problem& problem) {
  return IsFp8(problem.a.type) && problem.a_scaling.type != DataType::kE8M0;
}

double Bound(const Problem& problem, double exact, double magnitude) {
  if (problem.d.type == DataType::kInt32) return 0.5;
  if (SumsInF16(problem)) return LooseLimit(problem);
  const double unit = problem.accumulate == DataType::kF64 ? 0x1p-53 : 0x1p-24;
  double relative = 1.25 * (static_cast<double>(problem.k) + 16) * unit;
  if (HasShortSums(problem)) relative += 0x1p-11 + static_cast<double>(problem.k) * 0x1p-17;
  if (problem.a.type == DataType::kTf32) relative += 0x1p-9;
  return relative * magnitude + OutputRounding(problem.d.type) * std::fabs(exact) + 0x1p-24;
}

// A plane of an operand, as GpuOperands fills it: elements, and scales where there are any.
struct RandomOperand {
  DataType type;
  std::uint64_t seed;
  Scaling scaling;
  std::uint64_t scale_seed;
  std::int64_t lines;
  std::int64_t line_stride;
  std::int64_t inner_stride;
  std::int64_t k;

  // The values of one line along K.
  std::vector<double> Line(std::int64_t line) const {
    std::vector<double> values(static_cast<std::size_t>(k));
    for (std::int64_t i = 0; i < k; ++i) {
      double value = RandomElement(
          type, seed, static_cast<std::uint64_t>(line * line_stride + i * inner_stride));
      if (scaling.has_scales) {
        value *= RandomElement(scaling.type, scale_seed,
                               static_cast<std::uint64_t>(scaling.index(lines, k, line, i)));
      }
      values[static_cast<std::size_t>(i)] = value;
    }
    return values;
  }
};

RandomOperand OperandA(const Problem& p) {
  return {p.a.type, kSeedOfA,         p.a_scaling,        kSeedOfAScales,
          p.m,      p.a_row_stride(), p.a_inner_stride(), p.k};
}

RandomOperand OperandB(const Problem& p) {
  return {p.b.type,           kSeedOfB, p.b_scaling, kSeedOfBScales, p.n, p.b_column_stride(),
          p.b_inner_stride(), p.k};
}

}  // namespace

std::vector<std::int64_t> Sampled(std::int64_t extent, int count) {
  std::vector<std::int64_t> numbers;
  const std::int64_t taken = std::min<std::int64_t>(extent, count);
  numbers.reserve(static_cast<std::size_t>(taken));
  for (std::int64_t i = 0; i < taken; ++i) {
    numbers.push_back(taken == 1 ? 0 : i * (extent - 1) / (taken - 1));
  }
  return numbers;
}

double ReadElement(DataType type, const char* plane, std::int64_t index) {
  switch (type) {
    case DataType::kF64:
      return At<double>(plane, index);
    case DataType::kF16:
      return FromF16(At<std::uint16_t>(plane, index));
    case DataType::kBf16:
      return FromBf16(At<std::uint16_t>(plane, index));
    case DataType::kInt8:
      return At<std::int8_t>(plane, index);
    case DataType::kInt32:
      return At<std::int32_t>(plane, index);
    case DataType::kFp8E4M3:
      return FromFp8E4M3(At<std::uint8_t>(plane, index));
    case DataType::kFp8E5M2:
      return FromFp8E5M2(At<std::uint8_t>(plane, index));
    case DataType::kE8M0:
      return DecodeE8M0(At<std::uint8_t>(plane, index));
    default:
      return At<float>(plane, index);
  }
}

double RandomElement(DataType type, std::uint64_t seed, std::uint64_t index) {
  // The eight bytes that hold it, wherever an element of the type may begin.
  const auto bits = static_cast<std::uint64_t>(SizeBits(type));
  const std::uint64_t first = index * bits / 64 * 2;
  const std::uint32_t words[2] = {RandomWord(type, seed, first), RandomWord(type, seed, first + 1)};
  char bytes[8];
  std::memcpy(bytes, words, sizeof bytes);
  return ReadElement(type, bytes, static_cast<std::int64_t>(index % (64 / bits)));
}

double WorstError(const Problem& problem, const std::vector<std::int64_t>& rows,
                  const std::vector<std::int64_t>& columns,
                  const std::vector<std::vector<char>>& lines) {
  const auto k = static_cast<std::size_t>(problem.k);
  std::vector<std::vector<double>> b;
  b.reserve(columns.size());
  for (const std::int64_t column : columns) b.push_back(OperandB(problem).Line(column));
  double worst = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::vector<double> a = OperandA(problem).Line(rows[i]);
    for (std::size_t j = 0; j < columns.size(); ++j) {
      double exact = 0;
      double magnitude = 0;
      for (std::size_t t = 0; t < k; ++t) {
        const double product = a[t] * b[j][t];
        exact += product;
        magnitude += std::fabs(product);
      }
      const double error =
          std::fabs(ReadElement(problem.d.type, lines[i].data(), columns[j]) - exact);
      if (std::isnan(error)) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, error / Bound(problem, exact, magnitude));
    }
  }
  return worst;
}

double LooseLimit(const Problem& problem) {
  if (problem.d.type == DataType::kInt32) return 0;
  double relative = 0.01;
  if (problem.a.type == DataType::kTf32 || problem.d.type == DataType::kF16) relative = 0.02;
  if (problem.d.type == DataType::kBf16) relative = 0.05;
  if (SumsInF16(problem) || HasShortSums(problem)) relative = 0.25;
  // int8 operands have a deviation of 36.
  const double deviation = problem.a.type == DataType::kInt8 ? 36.0 * 36.0 : 1;
  return relative * deviation * std::sqrt(static_cast<double>(problem.k));
}

}  // namespace gemmd::bench
