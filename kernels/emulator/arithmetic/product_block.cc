#include "kernels/emulator/arithmetic/product_block.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/float_bits.h"
#include "kernels/emulator/arithmetic/aligned_sum.h"

namespace gemmd::emulator {
namespace {

// The largest exponent of moderate factors, and minus the smallest.
constexpr std::int32_t kModerate = 60;

// Eight factors' values and exponents; in *wrong, which of them are not moderate.
template <HalfFormat kFormat>
inline __attribute__((always_inline)) void Split(const std::uint16_t* from, float* value,
                                                 std::int32_t* exponent, Ints* wrong) {
  constexpr std::int32_t kFraction = kFormat == HalfFormat::kF16 ? 10 : 7;
  constexpr std::int32_t kBias = kFormat == HalfFormat::kF16 ? 15 : 127;
  using Halves = std::uint16_t __attribute__((vector_size(16)));
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const Ints bits = __builtin_convertvector(halves, Ints);
  const Ints magnitude = bits & 0x7fff;
  const Ints field = magnitude >> kFraction;
  const Ints hidden = (field > 0) & (1 << kFraction);
  const Ints whole = (magnitude & ((1 << kFraction) - 1)) | hidden;
  const Ints signed_whole = (bits & 0x8000) != 0 ? -whole : whole;
  const Ints place = (field > 0 ? field : Ints{} + 1) - kBias;
  const Ints is_zero = magnitude == 0;
  const Ints is_wrong = (field == 2 * kBias + 1) | (place > kModerate) | (place < -kModerate);
  *wrong |= is_wrong & ~is_zero;
  Floats scale;
  PowerOfTwo((is_wrong ? Ints{} : place) - kFraction, &scale);
  const Floats result = __builtin_convertvector(signed_whole, Floats) * scale;
  const Ints result_exponent = is_zero ? Ints{} + kNoExponent : place;
  std::memcpy(value, &result, sizeof result);
  std::memcpy(exponent, &result_exponent, sizeof result_exponent);
}

template <HalfFormat kFormat>
inline __attribute__((always_inline)) void SplitRow(const HalfLine& line, RowFactors* row) {
  Ints wrong = {};
  for (int k = 0; k < kBlockProducts; k += kBlockColumns) {
    Split<kFormat>(&line[k], &row->value[k], &row->exponent[k], &wrong);
  }
  row->moderate = IsNone(wrong);
}

template <HalfFormat kFormat>
inline __attribute__((always_inline)) void SplitColumns(const ColumnBits& bits,
                                                        ColumnFactors* columns) {
  Ints wrong = {};
  for (int k = 0; k < kBlockProducts; ++k) {
    Split<kFormat>(bits[k].data(), columns->value[k].data(), columns->exponent[k].data(), &wrong);
  }
  columns->moderate = IsNone(wrong);
}

Factors Exact(HalfFormat format, const HalfLine& line) {
  Factors factors = {};
  for (int k = 0; k < kBlockProducts; ++k) factors.Set(format, k, line[k]);
  return factors;
}

// One output after the other, by the definition.
void SumByDefinition(HalfFormat format, const RowFactors& row, const ColumnFactors& columns,
                     const float* addend, double* sum) {
  const Factors a = Exact(format, row.bits);
  for (int i = 0; i < kBlockColumns; ++i) {
    HalfLine column;
    for (int k = 0; k < kBlockProducts; ++k) column[k] = columns.bits[k][i];
    sum[i] = AlignedSum(addend[i], a, Exact(format, column));
  }
}

// The functions of the quick way, compiled for any processor; Avx2 has them compiled for one with
// AVX2.
template <HalfFormat kFormat>
struct Baseline {
  static bool DoSum(const RowFactors& row, const ColumnFactors& columns, const float* addend,
                    float* result, std::int32_t* lost) {
    return SumAligned<kBlockProducts>(row, columns, nullptr, addend, result, lost);
  }
  static void DoRow(const HalfLine& line, RowFactors* row) { SplitRow<kFormat>(line, row); }
  static void DoColumns(const ColumnBits& bits, ColumnFactors* columns) {
    SplitColumns<kFormat>(bits, columns);
  }
};

#if defined(__x86_64__)
#define GEMMD_AVX2 __attribute__((target("avx2")))
template <HalfFormat kFormat>
struct Avx2 {
  GEMMD_AVX2 static bool DoSum(const RowFactors& row, const ColumnFactors& columns,
                               const float* addend, float* result, std::int32_t* lost) {
    return SumAligned<kBlockProducts>(row, columns, nullptr, addend, result, lost);
  }
  GEMMD_AVX2 static void DoRow(const HalfLine& line, RowFactors* row) {
    SplitRow<kFormat>(line, row);
  }
  GEMMD_AVX2 static void DoColumns(const ColumnBits& bits, ColumnFactors* columns) {
    SplitColumns<kFormat>(bits, columns);
  }
};
#undef GEMMD_AVX2
#endif

struct Functions {
  bool (*sum)(const RowFactors&, const ColumnFactors&, const float*, float*, std::int32_t*);
  void (*row)(const HalfLine&, RowFactors*);
  void (*columns)(const ColumnBits&, ColumnFactors*);

  template <typename T>
  static Functions Of() {
    return {T::DoSum, T::DoRow, T::DoColumns};
  }
};

template <HalfFormat kFormat>
Functions Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return Functions::Of<Avx2<kFormat>>();
#endif
  return Functions::Of<Baseline<kFormat>>();
}

const Functions& FunctionsOf(HalfFormat format) {
  static const Functions kAll[2] = {Choose<HalfFormat::kF16>(), Choose<HalfFormat::kBf16>()};
  return kAll[format == HalfFormat::kF16 ? 0 : 1];
}

bool SumQuickly(HalfFormat format, const RowFactors& row, const ColumnFactors& columns,
                const float* addend, float* result, std::int32_t* lost) {
  return row.moderate && columns.moderate &&
         FunctionsOf(format).sum(row, columns, addend, result, lost);
}

}  // namespace

RowFactors PrepareRow(HalfFormat format, const HalfLine& line) {
  RowFactors row;
  row.bits = line;
  FunctionsOf(format).row(line, &row);
  return row;
}

void PrepareColumns(HalfFormat format, const ColumnBits& bits, ColumnFactors* columns) {
  columns->bits = bits;
  FunctionsOf(format).columns(bits, columns);
}

void MultiplyAddF32(HalfFormat format, const RowFactors& row, const ColumnFactors& columns,
                    float* sum) {
  if (SumQuickly(format, row, columns, sum, sum, nullptr)) return;
  double exact[kBlockColumns];
  SumByDefinition(format, row, columns, sum, exact);
  for (int i = 0; i < kBlockColumns; ++i) sum[i] = RoundToF32(exact[i]);
}

void MultiplyAddF16(const RowFactors& row, const ColumnFactors& columns, std::uint16_t* sum) {
  constexpr HalfFormat kFormat = HalfFormat::kF16;
  float addend[kBlockColumns];
  for (int i = 0; i < kBlockColumns; ++i) addend[i] = Widen(kFormat, sum[i]);
  float truncated[kBlockColumns];
  std::int32_t lost[kBlockColumns];
  if (SumQuickly(kFormat, row, columns, addend, truncated, lost)) {
    // Rounds as RoundToF16(): lost bits are marked in the last place.
    for (int i = 0; i < kBlockColumns; ++i) {
      sum[i] = ToF16(FloatOf(BitsOf(truncated[i]) | (lost[i] != 0 ? 1u : 0u)));
    }
    return;
  }
  double exact[kBlockColumns];
  SumByDefinition(kFormat, row, columns, addend, exact);
  for (int i = 0; i < kBlockColumns; ++i) sum[i] = RoundToF16(exact[i]);
}

}  // namespace gemmd::emulator
