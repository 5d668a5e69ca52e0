// AddCodeDots() in the registers of x86-64.
#include "kernels/cpu/code_form.h"

#if defined(__x86_64__)

#include <algorithm>

#include "kernels/cpu/code_types_x86.h"

namespace gemmd::x86 {
namespace {

constexpr std::int64_t kSixteen = 16;
constexpr std::int64_t kCacheLine = 64;

// ------------------------------------------------------------- lines

// Orders of 16 elements in a register: of a line, of a row and of chains alike.

struct InOrder {
  GEMMD_AVX512 static __m512 Arrange(__m512 x) { return x; }
  GEMMD_AVX512 static __m512 Restore(__m512 x) { return x; }
  GEMMD_AVX512 static __m512 Look(__m512 table, const std::uint8_t* p) { return Look512(table, p); }
};

// Elements i and 8 + i lie side by side: so a load that repeats 8 bytes brings each lane its code,
// and no shuffle has to.
struct HalvesInTurns {
  GEMMD_AVX512 static __m512 Arrange(__m512 x) {
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15), x);
  }
  GEMMD_AVX512 static __m512 Restore(__m512 x) {
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), x);
  }
  GEMMD_AVX512 static __m512 Look(__m512 table, const std::uint8_t* p) {
    return LookInTurns512(table, p);
  }
};

// A line's decoder: Begin() takes the numbers of a block, and Load() returns 16 elements of it. The
// difference is exact, and the product is rounded once, as DecodeRun() says.

template <typename Type, Shift kShift>
struct Scaled512 : InOrder {
  static constexpr std::int64_t kStepBytes = 2 * Type::kBits;
  GEMMD_AVX512 void Begin(const float* /*values*/, const Blocks& blocks, std::int64_t block) {
    factor = _mm512_set1_ps(blocks.factors[block]);
    if constexpr (kShift != Shift::kNone) shift = _mm512_set1_ps(ShiftsOf<kShift>(blocks)[block]);
  }
  GEMMD_AVX512 __m512 Load(const std::uint8_t* p) const {
    return Scaled<kShift>(Type::Load512(p), factor, shift);
  }
  __m512 factor;
  __m512 shift;
};

template <Shift kShift, typename Lanes>
struct Table512 : Lanes {
  static constexpr std::int64_t kStepBytes = 8;
  GEMMD_AVX512 void Begin(const float* values, const Blocks& blocks, std::int64_t block) {
    __m512 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm512_set1_ps(ShiftsOf<kShift>(blocks)[block]);
    table = Scaled<kShift>(_mm512_loadu_ps(values), _mm512_set1_ps(blocks.factors[block]), shift);
  }
  GEMMD_AVX512 __m512 Load(const std::uint8_t* p) const { return Lanes::Look(table, p); }
  __m512 table;
};

template <typename Type, Shift kShift>
struct Scaled256 {
  static constexpr std::int64_t kStepBytes = 2 * Type::kBits;
  GEMMD_AVX2 void Begin(const float* /*values*/, const Blocks& blocks, std::int64_t block) {
    factor = _mm256_set1_ps(blocks.factors[block]);
    if constexpr (kShift != Shift::kNone) shift = _mm256_set1_ps(ShiftsOf<kShift>(blocks)[block]);
  }
  GEMMD_AVX2 Pair Load(const std::uint8_t* p) const {
    const Pair x = Type::Load256(p);
    return {Scaled<kShift>(x.low, factor, shift), Scaled<kShift>(x.high, factor, shift)};
  }
  __m256 factor;
  __m256 shift;
};

template <Shift kShift>
struct Table256 {
  static constexpr std::int64_t kStepBytes = 8;
  GEMMD_AVX2 void Begin(const float* values, const Blocks& blocks, std::int64_t block) {
    const __m256 factor = _mm256_set1_ps(blocks.factors[block]);
    __m256 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm256_set1_ps(ShiftsOf<kShift>(blocks)[block]);
    low = Scaled<kShift>(_mm256_loadu_ps(values), factor, shift);
    high = Scaled<kShift>(_mm256_loadu_ps(values + 8), factor, shift);
  }
  GEMMD_AVX2 Pair Load(const std::uint8_t* p) const {
    return {Look256(low, high, p), Look256(low, high, p + 4)};
  }
  __m256 low;
  __m256 high;
};

// ------------------------------------------------------------- chains

// Each form has a loop of its own, as in row_tile.cc. `first` is the first column.

// `kSteps`: those of a block, which are unrolled, because two are over too soon for a loop; 0: any
// number.
template <class Line, int kRows, int kSteps>
GEMMD_AVX512 void AddColumns512(const CodeLines& lines, const DotRows& rows, std::int64_t steps,
                                const float* values, float* chains) {
  __m512 sums[kRows][kDotColumns];
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      sums[row][j] = Line::Arrange(_mm512_loadu_ps(chains + (row * kDotColumns + j) * kSixteen));
    }
  }
  const std::int64_t block_steps = kSteps != 0 ? kSteps : lines.numbers[0].length / kSixteen;
  for (std::int64_t step = 0, block = 0; step < steps; step += block_steps, ++block) {
    Line line[kDotColumns];
    const std::uint8_t* codes[kDotColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      line[j].Begin(values, lines.numbers[j], block);
      codes[j] = lines.codes[j] + step * Line::kStepBytes;
    }
    const float* const of_block = rows.data + step * kSixteen;
    const auto add = [&](std::int64_t i)
        __attribute__((target("avx512f,avx2,fma,f16c"), always_inline)) {
      __m512 x[kRows];
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        x[row] = Line::Arrange(_mm512_loadu_ps(of_block + row * rows.pitch + i * kSixteen));
      }
#pragma GCC unroll 4
      for (int j = 0; j < kDotColumns; ++j) {
        // Once for each cache line that a block has, or part of one.
        if (i * Line::kStepBytes % kCacheLine == 0) {
          __builtin_prefetch(codes[j] + i * Line::kStepBytes + lines.ahead);
        }
        const __m512 b = line[j].Load(codes[j] + i * Line::kStepBytes);
#pragma GCC unroll 4
        for (int row = 0; row < kRows; ++row) {
          sums[row][j] = _mm512_fmadd_ps(x[row], b, sums[row][j]);
        }
      }
    };
    if (kSteps != 0 && step + kSteps <= steps) {
#pragma GCC unroll 2
      for (int i = 0; i < kSteps; ++i) add(i);
      continue;
    }
    const std::int64_t end = std::min(steps - step, block_steps);
    for (std::int64_t i = 0; i < end; ++i) add(i);
  }
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      _mm512_storeu_ps(chains + (row * kDotColumns + j) * kSixteen, Line::Restore(sums[row][j]));
    }
  }
}

template <class Line, int kRows, int kColumns>
GEMMD_AVX2 void AddColumns256(const CodeLines& lines, int first, const DotRows& rows,
                              std::int64_t steps, const float* values, float* chains) {
  Pair sums[kRows][kColumns];
#pragma GCC unroll 2
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) {
      const float* const from = chains + (row * kDotColumns + first + j) * kSixteen;
      sums[row][j] = {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
    }
  }
  const std::int64_t block_steps = lines.numbers[0].length / kSixteen;
  for (std::int64_t step = 0, block = 0; step < steps; ++block) {
    Line line[kColumns];
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) line[j].Begin(values, lines.numbers[first + j], block);
    const std::int64_t end = std::min(steps, step + block_steps);
    for (; step < end; ++step) {
#pragma GCC unroll 2
      for (int j = 0; j < kColumns; ++j) {
        const std::uint8_t* const codes = lines.codes[first + j] + step * Line::kStepBytes;
        __builtin_prefetch(codes + lines.ahead);
        const Pair b = line[j].Load(codes);
#pragma GCC unroll 2
        for (int row = 0; row < kRows; ++row) {
          const float* const a = rows.data + row * rows.pitch + step * kSixteen;
          Pair& sum = sums[row][j];
          sum = {_mm256_fmadd_ps(_mm256_loadu_ps(a), b.low, sum.low),
                 _mm256_fmadd_ps(_mm256_loadu_ps(a + 8), b.high, sum.high)};
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int j = 0; j < kColumns; ++j) {
      float* const to = chains + (row * kDotColumns + first + j) * kSixteen;
      _mm256_storeu_ps(to, sums[row][j].low);
      _mm256_storeu_ps(to + 8, sums[row][j].high);
    }
  }
}

// ------------------------------------------------------------- rows

// `Few` is the decoder for two rows at most.
template <class Line, class Few, int kSteps>
__attribute__((target("avx512f,avx2,fma,f16c"))) void AddRowsOfBlocks512(
    const CodeLines& lines, DotRows rows, std::int64_t steps, const float* values, float* chains) {
  while (rows.count > 0) {
    const std::int64_t some = std::min<std::int64_t>(rows.count, 4);
    switch (some) {
      case 1:
        AddColumns512<Few, 1, kSteps>(lines, rows, steps, values, chains);
        break;
      case 2:
        AddColumns512<Few, 2, kSteps>(lines, rows, steps, values, chains);
        break;
      case 3:
        AddColumns512<Line, 3, kSteps>(lines, rows, steps, values, chains);
        break;
      default:
        AddColumns512<Line, 4, kSteps>(lines, rows, steps, values, chains);
    }
    rows.data += some * rows.pitch;
    rows.count -= some;
    chains += some * kDotColumns * kSixteen;
  }
}

template <class Line, class Few = Line>
void AddRows512(const CodeLines& lines, const DotRows& rows, std::int64_t steps,
                const float* values, float* chains) {
  if (lines.numbers[0].length == 2 * kSixteen) {
    return AddRowsOfBlocks512<Line, Few, 2>(lines, rows, steps, values, chains);
  }
  AddRowsOfBlocks512<Line, Few, 0>(lines, rows, steps, values, chains);
}

// 16 registers hold the sums of two columns, and no more than two rows.
constexpr std::int64_t kMostRows256 = 2;
template <class Line>
__attribute__((target("avx2,fma,f16c"))) void AddRows256(const CodeLines& lines,
                                                         const DotRows& rows, std::int64_t steps,
                                                         const float* values, float* chains) {
  for (int j = 0; j < kDotColumns; j += 2) {
    if (rows.count == 1) {
      AddColumns256<Line, 1, 2>(lines, j, rows, steps, values, chains);
    } else {
      AddColumns256<Line, 2, 2>(lines, j, rows, steps, values, chains);
    }
  }
}

}  // namespace

bool AddDots512(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains) {
  return WithShift(lines.numbers[0], [&](auto shift) {
    if (SizeBits(lines.type) == 4) {
      // An order of rows costs each of them a shuffle.
      AddRows512<Table512<shift(), InOrder>, Table512<shift(), HalvesInTurns>>(
          lines, rows, steps, ValuesOf4Bits(lines.type), chains);
      return true;
    }
    return WithType(lines.type, [&](auto of_type) {
      AddRows512<Scaled512<decltype(of_type), shift()>>(lines, rows, steps, nullptr, chains);
      return true;
    });
  });
}

bool AddDots256(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains) {
  if (rows.count > kMostRows256) return false;
  return WithShift(lines.numbers[0], [&](auto shift) {
    if (SizeBits(lines.type) == 4) {
      AddRows256<Table256<shift()>>(lines, rows, steps, ValuesOf4Bits(lines.type), chains);
      return true;
    }
    return WithType(lines.type, [&](auto of_type) {
      AddRows256<Scaled256<decltype(of_type), shift()>>(lines, rows, steps, nullptr, chains);
      return true;
    });
  });
}

}  // namespace gemmd::x86

#endif
