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

// Of a zero: below every sum of two exponents that takes part, and far from overflow.
constexpr std::int32_t kNoExponent = -2000;
constexpr std::int32_t kAlignedBits = 25;  // tensor_core.h, step 3
// A term this many binary places below the largest has no bit left.
constexpr std::int32_t kFarBelow = -60;
// Where every result is a normal f32 whatever its 25 to 33 bits are.
constexpr std::int32_t kLowestExponent = -101;
constexpr std::int32_t kHighestExponent = 120;

constexpr std::int32_t FractionBits(HalfFormat format) {
  return format == HalfFormat::kF16 ? 10 : 7;
}

struct Factor {
  float significand;
  std::int32_t exponent;
};

template <HalfFormat kFormat>
inline __attribute__((always_inline)) Factor Split(std::uint16_t bits) {
  constexpr std::int32_t kFraction = FractionBits(kFormat);
  constexpr std::int32_t kBias = kFormat == HalfFormat::kF16 ? 15 : 127;
  const std::int32_t magnitude = bits & 0x7fff;
  const std::int32_t field = magnitude >> kFraction;
  const std::int32_t fraction = magnitude & ((1 << kFraction) - 1);
  const std::int32_t whole = field > 0 ? fraction | (1 << kFraction) : fraction;
  const std::int32_t signed_whole = (bits & 0x8000) != 0 ? -whole : whole;
  return {static_cast<float>(signed_whole),
          magnitude == 0 ? kNoExponent : std::max(field, 1) - kBias};
}

bool IsFinite(HalfFormat format, const HalfLine& line) {
  const std::uint16_t all_ones = format == HalfFormat::kF16 ? 0x7c00 : 0x7f80;
  bool finite = true;
  for (const std::uint16_t bits : line) finite &= (bits & all_ones) != all_ones;
  return finite;
}

template <HalfFormat kFormat>
void SplitRow(const HalfLine& line, RowFactors* row) {
  for (int k = 0; k < kBlockProducts; ++k) {
    const Factor factor = Split<kFormat>(line[k]);
    row->significand[k] = factor.significand;
    row->exponent[k] = factor.exponent;
  }
}

template <HalfFormat kFormat>
void SplitColumns(const std::array<HalfLine, kBlockColumns>& lines, ColumnFactors* columns) {
  for (int k = 0; k < kBlockProducts; ++k) {
    for (int i = 0; i < kBlockColumns; ++i) {
      const Factor factor = Split<kFormat>(lines[i][k]);
      columns->significand[k][i] = factor.significand;
      columns->exponent[k][i] = factor.exponent;
    }
  }
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
    sum[i] = AlignedSum(addend[i], a, Exact(format, columns.bits[i]));
  }
}

// 2^exponent, by its bits. REQUIRES: a normal f32.
inline __attribute__((always_inline)) void PowerOfTwo(const Ints& exponent, Floats* power) {
  const Ints bits = (exponent + 127) << 23;
  std::memcpy(power, &bits, sizeof bits);
}

// Steps 2 to 4 of tensor_core.h with the sum rounded toward zero to f32's 24 bits, and in
// *lost whether that lost any. False where the quick way does not apply.
template <HalfFormat kFormat>
inline __attribute__((always_inline)) bool Sum(const RowFactors& row, const ColumnFactors& columns,
                                               const float* addend, float* result,
                                               std::int32_t* lost) {
  // The addend as significand * 2^(exponent - 23).
  Ints bits;
  std::memcpy(&bits, addend, sizeof bits);
  const Ints field = (bits >> 23) & 255;
  const Ints is_zero = (bits & 0x7fffffff) == 0;
  const Ints is_odd = (field == 255) | ((field == 0) & ~is_zero);
  const Ints whole = (bits & 0x7fffff) | (is_zero ? Ints{} : Ints{} + 0x800000);
  const Ints signed_whole = bits < 0 ? -whole : whole;
  const Ints addend_exponent = is_zero ? Ints{} + kNoExponent : field - 127;

  Ints largest = addend_exponent;
  for (int k = 0; k < kBlockProducts; ++k) {
    Ints exponent;
    std::memcpy(&exponent, &columns.exponent[k], sizeof exponent);
    exponent += row.exponent[k];
    largest = exponent > largest ? exponent : largest;
  }
  const Ints is_out =
      is_odd | (largest > kHighestExponent) | ((largest < kLowestExponent) & (largest > -1000));
  std::int32_t outside = 0;
  for (int i = 0; i < kBlockColumns; ++i) outside |= is_out[i];
  if (outside != 0) return false;

  // Products of two significands are whole and below 2^22, the addend's is below 2^24: a
  // multiplication by a power of two is exact, and the conversion truncates.
  constexpr std::int32_t kProductShift = kAlignedBits - 2 * FractionBits(kFormat);
  Floats scale;
  Ints below = addend_exponent - largest;
  PowerOfTwo((below > kFarBelow ? below : Ints{} + kFarBelow) + (kAlignedBits - 23), &scale);
  const Ints first =
      __builtin_convertvector(__builtin_convertvector(signed_whole, Floats) * scale, Ints);
  // An aligned product is below 2^27: eight of them fit 32 bits, sixteen need not.
  Ints partial[2] = {};
  for (int k = 0; k < kBlockProducts; ++k) {
    Ints exponent;
    Floats significand;
    std::memcpy(&exponent, &columns.exponent[k], sizeof exponent);
    std::memcpy(&significand, &columns.significand[k], sizeof significand);
    below = exponent + row.exponent[k] - largest;
    PowerOfTwo((below > kFarBelow ? below : Ints{} + kFarBelow) + kProductShift, &scale);
    partial[k / 8] += __builtin_convertvector(significand * row.significand[k] * scale, Ints);
  }
  const Doubles sum = __builtin_convertvector(partial[0], Doubles) +
                      __builtin_convertvector(partial[1], Doubles) +
                      __builtin_convertvector(first, Doubles);
  const Ints exponent = (largest > kLowestExponent ? largest : Ints{} + kLowestExponent);
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

using SumFunction = bool (*)(const RowFactors&, const ColumnFactors&, const float*, float*,
                             std::int32_t*);

template <HalfFormat kFormat>
bool SumBaseline(const RowFactors& row, const ColumnFactors& columns, const float* addend,
                 float* result, std::int32_t* lost) {
  return Sum<kFormat>(row, columns, addend, result, lost);
}

#if defined(__x86_64__)
template <HalfFormat kFormat>
__attribute__((target("avx2"))) bool SumAvx2(const RowFactors& row, const ColumnFactors& columns,
                                             const float* addend, float* result,
                                             std::int32_t* lost) {
  return Sum<kFormat>(row, columns, addend, result, lost);
}
#endif

template <HalfFormat kFormat>
SumFunction Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return SumAvx2<kFormat>;
#endif
  return SumBaseline<kFormat>;
}

template <HalfFormat kFormat>
bool SumQuickly(const RowFactors& row, const ColumnFactors& columns, const float* addend,
                float* result, std::int32_t* lost) {
  static const SumFunction sum = Choose<kFormat>();
  return row.finite && columns.finite && sum(row, columns, addend, result, lost);
}

}  // namespace

RowFactors PrepareRow(HalfFormat format, const HalfLine& line) {
  RowFactors row;
  row.bits = line;
  row.finite = IsFinite(format, line);
  if (format == HalfFormat::kF16) {
    SplitRow<HalfFormat::kF16>(line, &row);
  } else {
    SplitRow<HalfFormat::kBf16>(line, &row);
  }
  return row;
}

void PrepareColumns(HalfFormat format, const std::array<HalfLine, kBlockColumns>& lines,
                    ColumnFactors* columns) {
  columns->bits = lines;
  columns->finite = true;
  for (const HalfLine& line : lines) columns->finite &= IsFinite(format, line);
  if (format == HalfFormat::kF16) {
    SplitColumns<HalfFormat::kF16>(lines, columns);
  } else {
    SplitColumns<HalfFormat::kBf16>(lines, columns);
  }
}

void MultiplyAddF32(HalfFormat format, const RowFactors& row, const ColumnFactors& columns,
                    float* sum) {
  const bool is_done = format == HalfFormat::kF16
                           ? SumQuickly<HalfFormat::kF16>(row, columns, sum, sum, nullptr)
                           : SumQuickly<HalfFormat::kBf16>(row, columns, sum, sum, nullptr);
  if (is_done) return;
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
  if (SumQuickly<kFormat>(row, columns, addend, truncated, lost)) {
    // As RoundToF16(): lost bits are marked in the last place.
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
