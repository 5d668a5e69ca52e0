#include "kernels/emulator/scaled_block.h"

#include "kernels/emulator/aligned_sum.h"

namespace gemmd::emulator {
namespace {

constexpr std::int32_t kScaleBias = 127;
constexpr std::uint8_t kNanScale = 0xff;

Factors Unscaled(const ScaledLine& line) {
  Factors factors = {};
  factors.count = kMostBlockProducts;
  for (int k = 0; k < factors.count; ++k) factors.Set(line.format, k, line.codes[k]);
  return factors;
}

Factors Scaled(const ScaledLine& line) {
  Factors factors = Unscaled(line);
  factors.Scale(line.scale);
  return factors;
}

std::int32_t ExponentOf(const Factors& factors, int k) {
  return factors.value[k] == 0 ? kNoExponent : factors.exponent[k];
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
  const Factors factors = Unscaled(line);
  for (int k = 0; k < kMostBlockProducts; ++k) {
    row->value[k] = static_cast<float>(factors.value[k]);
    row->exponent[k] = ExponentOf(factors, k);
  }
  row->scale = static_cast<std::int32_t>(line.scale) - kScaleBias;
  row->is_finite = factors.finite && line.scale != kNanScale;
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
