#include "kernels/emulator/arithmetic/scaled_block.h"

#include <cstddef>

#include "kernels/emulator/arithmetic/aligned_sum.h"

namespace gemmd::emulator {
namespace {

constexpr std::int32_t kScaleBias = 127;
constexpr std::uint8_t kNanScale = 0xff;

Factors Scaled(const ScaledLine& line) {
  Factors factors = {};
  factors.count = kMostBlockProducts;
  for (int k = 0; k < factors.count; ++k) factors.Set(line.format, k, line.codes[k]);
  factors.Scale(line.scale);
  return factors;
}

// A code as Factors has it, but for the exponent of a zero.
struct DecodedCode {
  float value;
  std::int32_t exponent;
  bool is_finite;
};
using CodeTable = std::array<DecodedCode, 256>;

CodeTable MakeTable(FactorFormat format) {
  CodeTable table;
  for (std::uint32_t code = 0; code < table.size(); ++code) {
    Factors factor = {};
    factor.Set(format, 0, code);
    const std::int32_t exponent = factor.value[0] == 0 ? kNoExponent : factor.exponent[0];
    table[code] = {static_cast<float>(factor.value[0]), exponent, factor.finite};
  }
  return table;
}

const CodeTable& TableOf(FactorFormat format) {
  static const auto* const kTables =
      new std::array<CodeTable, 5>{MakeTable(FactorFormat::kE4m3), MakeTable(FactorFormat::kE5m2),
                                   MakeTable(FactorFormat::kE2m3), MakeTable(FactorFormat::kE3m2),
                                   MakeTable(FactorFormat::kE2m1)};
  return (
      *kTables)[static_cast<std::size_t>(format) - static_cast<std::size_t>(FactorFormat::kE4m3)];
}

bool SumQuickly(const ScaledRow& row, const ScaledColumns& columns, const std::int32_t* scale,
                float* sum) {
  return SumAligned<kMostBlockProducts>(row, columns, scale, sum, sum, nullptr);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) bool SumWithAvx2(const ScaledRow& row, const ScaledColumns& columns,
                                                 const std::int32_t* scale, float* sum) {
  return SumAligned<kMostBlockProducts>(row, columns, scale, sum, sum, nullptr);
}
#endif

auto ChooseSum() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return SumWithAvx2;
#endif
  return SumQuickly;
}

}  // namespace

void PrepareScaledRow(const ScaledLine& line, ScaledRow* row) {
  const CodeTable& table = TableOf(line.format);
  bool is_finite = line.scale != kNanScale;
  for (int k = 0; k < kMostBlockProducts; ++k) {
    const DecodedCode& code = table[line.codes[k]];
    row->value[k] = code.value;
    row->exponent[k] = code.exponent;
    is_finite = is_finite && code.is_finite;
  }
  row->scale = static_cast<std::int32_t>(line.scale) - kScaleBias;
  row->is_finite = is_finite;
  row->line = line;
}

void PrepareScaledColumns(const std::array<ScaledLine, kBlockColumns>& lines,
                          ScaledColumns* columns) {
  columns->is_finite = true;
  for (int i = 0; i < kBlockColumns; ++i) {
    ScaledRow column;
    PrepareScaledRow(lines[i], &column);
    for (int k = 0; k < kMostBlockProducts; ++k) {
      columns->value[k][i] = column.value[k];
      columns->exponent[k][i] = column.exponent[k];
    }
    columns->scale[i] = column.scale;
    columns->is_finite = columns->is_finite && column.is_finite;
  }
  columns->lines = lines;
}

void MultiplyAddScaled(const ScaledRow& row, const ScaledColumns& columns, float* sum) {
  static const auto sum_quickly = ChooseSum();
  std::array<std::int32_t, kBlockColumns> scale;
  for (int i = 0; i < kBlockColumns; ++i) scale[i] = row.scale + columns.scale[i];
  if (row.is_finite && columns.is_finite && sum_quickly(row, columns, scale.data(), sum)) return;
  const Factors a = Scaled(row.line);
  for (int i = 0; i < kBlockColumns; ++i) {
    sum[i] = RoundToF32(AlignedSum(sum[i], a, Scaled(columns.lines[i])));
  }
}

}  // namespace gemmd::emulator
