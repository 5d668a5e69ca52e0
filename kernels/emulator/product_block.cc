#include "kernels/emulator/product_block.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/float_bits.h"

namespace gemmd::emulator {
namespace {

// Lanes are outputs. The compiler splits these where registers are shorter.
using Floats = float __attribute__((vector_size(32)));
using Ints = std::int32_t __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));
using Longs = std::int64_t __attribute__((vector_size(64)));

// The exponent of a zero: below every sum of two exponents that takes part, and far from overflow.
constexpr std::int32_t kNoExponent = -2000;
constexpr std::int32_t kAlignedBits = 25;  // tensor_core.h, step 3
// The largest exponent of moderate factors, and minus the smallest.
constexpr std::int32_t kModerate = 60;
// Where every result is a normal f32 whatever its 25 to 33 bits are.
constexpr std::int32_t kLowestExponent = -101;
constexpr std::int32_t kHighestExponent = 120;

// 2^exponent, by its bits. REQUIRES: a normal f32.
inline __attribute__((always_inline)) void PowerOfTwo(const Ints& exponent, Floats* power) {
  const Ints bits = (exponent + 127) << 23;
  std::memcpy(power, &bits, sizeof bits);
}

inline __attribute__((always_inline)) bool IsNone(const Ints& wrong) {
  std::int32_t any = 0;
  for (int i = 0; i < kBlockColumns; ++i) any |= wrong[i];
  return any == 0;
}

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

// Steps 2 to 4 of tensor_core.h with the sum rounded toward zero to f32's 24 bits, and in
// *lost whether that lost any. False where the quick way does not apply.
inline __attribute__((always_inline)) bool Sum(const RowFactors& row, const ColumnFactors& columns,
                                               const float* addend, float* result,
                                               std::int32_t* lost) {
  Floats addends;
  Ints bits;
  std::memcpy(&addends, addend, sizeof addends);
  std::memcpy(&bits, addend, sizeof bits);
  const Ints field = (bits >> 23) & 255;
  const Ints is_zero = (bits & 0x7fffffff) == 0;
  const Ints is_odd = (field == 255) | ((field == 0) & ~is_zero);

  Ints largest = is_zero ? Ints{} + kNoExponent : field - 127;
  for (int k = 0; k < kBlockProducts; ++k) {
    Ints of_product;
    std::memcpy(&of_product, &columns.exponent[k], sizeof of_product);
    of_product += row.exponent[k];
    largest = of_product > largest ? of_product : largest;
  }
  const Ints is_out =
      is_odd | (largest > kHighestExponent) | ((largest < kLowestExponent) & (largest > -1000));
  if (!IsNone(is_out)) return false;

  // Products have at most 22 bits, so that they are exact, and so is their multiplication by
  // a power of two, except where the result is far below one; the conversion truncates.
  const Ints exponent = (largest > kLowestExponent ? largest : Ints{} + kLowestExponent);
  Floats scale;
  PowerOfTwo(kAlignedBits - exponent, &scale);
  const Ints first = __builtin_convertvector(addends * scale, Ints);
  // An aligned product is below 2^27: eight of them fit 32 bits, sixteen need not.
  Ints partial[2] = {};
  for (int k = 0; k < kBlockProducts; ++k) {
    Floats value;
    std::memcpy(&value, &columns.value[k], sizeof value);
    partial[k / 8] += __builtin_convertvector(value * row.value[k] * scale, Ints);
  }
  const Doubles sum = __builtin_convertvector(partial[0], Doubles) +
                      __builtin_convertvector(partial[1], Doubles) +
                      __builtin_convertvector(first, Doubles);
  Floats unscale;
  PowerOfTwo(exponent - kAlignedBits, &unscale);
  // The sum has at most 32 bits, so the product is exact.
  const Doubles exact = sum * __builtin_convertvector(unscale, Doubles);
  Longs exact_bits;
  std::memcpy(&exact_bits, &exact, sizeof exact_bits);
  constexpr std::int64_t kBeyondF32 = (std::int64_t{1} << 29) - 1;
  const Longs kept = exact_bits & ~kBeyondF32;
  Doubles truncated;
  std::memcpy(&truncated, &kept, sizeof truncated);
  const Floats rounded = __builtin_convertvector(truncated, Floats);
  std::memcpy(result, &rounded, sizeof rounded);
  if (lost != nullptr) {
    const Ints some = __builtin_convertvector((exact_bits & kBeyondF32) != 0, Ints);
    std::memcpy(lost, &some, sizeof some);
  }
  return true;
}

// The same code for any processor and for one with AVX2.
template <HalfFormat kFormat>
struct Baseline {
  static bool DoSum(const RowFactors& row, const ColumnFactors& columns, const float* addend,
                    float* result, std::int32_t* lost) {
    return Sum(row, columns, addend, result, lost);
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
    return Sum(row, columns, addend, result, lost);
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
