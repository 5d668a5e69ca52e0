#include "kernels/cpu/int8_rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/intrinsics.h"

namespace gemmd {
namespace {

constexpr std::int64_t kGroup = 4;      // elements of K in a lane
constexpr std::int64_t kLanes = 16;     // of a vector
constexpr std::int64_t kTileRows = 12;  // with two vectors of columns they fill 24 registers
constexpr std::int64_t kVectorBytes = 64;
// The elements of K at a time: a strip of that length stays in the first cache.
constexpr std::int64_t kDepth = 1024;

#define GEMMD_WITH_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

// c (kRows lines of a strip's columns) += lines of A times `groups` groups of a strip.
template <int kRows>
GEMMD_WITH_VNNI void AddTile(std::int64_t groups, const std::uint8_t* a, std::int64_t lda,
                             const std::int8_t* strip, std::int32_t* c, std::int64_t ldc) {
  __m512i sums[kRows][2];
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row) {
    sums[row][0] = _mm512_loadu_si512(c + row * ldc);
    sums[row][1] = _mm512_loadu_si512(c + row * ldc + kLanes);
  }
  for (std::int64_t group = 0; group < groups; ++group) {
    const __m512i b0 = _mm512_load_si512(strip + group * 2 * kVectorBytes);
    const __m512i b1 = _mm512_load_si512(strip + group * 2 * kVectorBytes + kVectorBytes);
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      std::int32_t four;
      std::memcpy(&four, a + row * lda + group * kGroup, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
      sums[row][0] = _mm512_dpbusd_epi32(sums[row][0], x, b0);
      sums[row][1] = _mm512_dpbusd_epi32(sums[row][1], x, b1);
    }
  }
#pragma GCC unroll 12
  for (int row = 0; row < kRows; ++row) {
    _mm512_storeu_si512(c + row * ldc, sums[row][0]);
    _mm512_storeu_si512(c + row * ldc + kLanes, sums[row][1]);
  }
}

// A whole group of a whole strip, whose columns are neighbours in memory.
void PackGroupOfLines(const std::int8_t* b, std::int64_t inner_stride, std::int8_t* to) {
  for (std::int64_t column = 0; column < kInt8StripColumns; column += kLanes) {
    const auto line = [&](std::int64_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i * inner_stride + column));
    };
    const __m128i x0 = line(0);
    const __m128i x1 = line(1);
    const __m128i x2 = line(2);
    const __m128i x3 = line(3);
    const __m128i low01 = _mm_unpacklo_epi8(x0, x1);
    const __m128i high01 = _mm_unpackhi_epi8(x0, x1);
    const __m128i low23 = _mm_unpacklo_epi8(x2, x3);
    const __m128i high23 = _mm_unpackhi_epi8(x2, x3);
    auto* const out = reinterpret_cast<__m128i*>(to + column * kGroup);
    _mm_store_si128(out, _mm_unpacklo_epi16(low01, low23));
    _mm_store_si128(out + 1, _mm_unpackhi_epi16(low01, low23));
    _mm_store_si128(out + 2, _mm_unpacklo_epi16(high01, high23));
    _mm_store_si128(out + 3, _mm_unpackhi_epi16(high01, high23));
  }
}

// Four whole groups of a whole strip, whose elements of K are neighbours in memory.
void PackFourGroupsOfColumns(const std::int8_t* b, std::int64_t column_stride, std::int8_t* to) {
  constexpr std::int64_t kGroupBytes = kGroup * kInt8StripColumns;
  for (std::int64_t column = 0; column < kInt8StripColumns; column += 4) {
    const auto load = [&](std::int64_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + (column + i) * column_stride));
    };
    const auto store = [&](std::int64_t group, __m128i value) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to + group * kGroupBytes + column * kGroup),
                      value);
    };
    const __m128i x0 = load(0);
    const __m128i x1 = load(1);
    const __m128i x2 = load(2);
    const __m128i x3 = load(3);
    const __m128i low01 = _mm_unpacklo_epi32(x0, x1);
    const __m128i high01 = _mm_unpackhi_epi32(x0, x1);
    const __m128i low23 = _mm_unpacklo_epi32(x2, x3);
    const __m128i high23 = _mm_unpackhi_epi32(x2, x3);
    store(0, _mm_unpacklo_epi64(low01, low23));
    store(1, _mm_unpackhi_epi64(low01, low23));
    store(2, _mm_unpacklo_epi64(high01, high23));
    store(3, _mm_unpackhi_epi64(high01, high23));
  }
}

void PackGroup(std::int64_t depth, std::int64_t columns, const std::int8_t* b,
               std::int64_t inner_stride, std::int64_t column_stride, std::int8_t* to) {
  const bool is_whole = columns == kInt8StripColumns && depth == kGroup;
  if (is_whole && column_stride == 1) return PackGroupOfLines(b, inner_stride, to);
  std::fill_n(to, kGroup * kInt8StripColumns, std::int8_t{0});
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t i = 0; i < depth; ++i) {
      to[column * kGroup + i] = b[column * column_stride + i * inner_stride];
    }
  }
}

// -128 times the sum of each column, modulo 2^32 as the sums of products are.
GEMMD_WITH_VNNI void SumColumns(std::int64_t groups, const std::int8_t* strip, std::int8_t* to) {
  const __m512i move = _mm512_set1_epi8(static_cast<char>(0x80));
  for (std::int64_t half = 0; half < 2 * kVectorBytes; half += kVectorBytes) {
    __m512i sums = _mm512_setzero_si512();
    for (std::int64_t group = 0; group < groups; ++group) {
      sums = _mm512_dpbusd_epi32(sums, move,
                                 _mm512_load_si512(strip + group * 2 * kVectorBytes + half));
    }
    _mm512_store_si512(to + half, _mm512_sub_epi32(_mm512_setzero_si512(), sums));
  }
}

using AddTileFunction = void (*)(std::int64_t, const std::uint8_t*, std::int64_t,
                                 const std::int8_t*, std::int32_t*, std::int64_t);
// The functions by their number of rows, less one.
constexpr AddTileFunction kAddTile[kTileRows] = {AddTile<1>, AddTile<2>,  AddTile<3>,  AddTile<4>,
                                                 AddTile<5>, AddTile<6>,  AddTile<7>,  AddTile<8>,
                                                 AddTile<9>, AddTile<10>, AddTile<11>, AddTile<12>};

constexpr std::int64_t kDotColumns = 4;

// c (kRows x kDotColumns) = lines of A times columns as they lie, which are read once for all rows
// and for their own sums.
template <int kRows>
GEMMD_WITH_VNNI void MultiplyDots(std::int64_t k, const std::uint8_t* a, std::int64_t lda,
                                  const std::int8_t* b, std::int64_t column_stride, std::int32_t* c,
                                  std::int64_t ldc) {
  const __m512i move = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i sums[kRows][kDotColumns];
  __m512i moved[kDotColumns];
  for (int j = 0; j < kDotColumns; ++j) {
    moved[j] = _mm512_setzero_si512();
    for (int row = 0; row < kRows; ++row) sums[row][j] = _mm512_setzero_si512();
  }
  for (std::int64_t i = 0; i < k; i += kVectorBytes) {
    const std::int64_t count = std::min(kVectorBytes, k - i);
    const __mmask64 mask = ~std::uint64_t{0} >> (kVectorBytes - count);
    __m512i x[kRows];
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) x[row] = _mm512_maskz_loadu_epi8(mask, a + row * lda + i);
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      const __m512i y = _mm512_maskz_loadu_epi8(mask, b + j * column_stride + i);
      moved[j] = _mm512_dpbusd_epi32(moved[j], move, y);
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        sums[row][j] = _mm512_dpbusd_epi32(sums[row][j], x[row], y);
      }
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < kDotColumns; ++j) {
#pragma GCC unroll 4
    for (int row = 0; row < kRows; ++row) {
      c[row * ldc + j] = _mm512_reduce_add_epi32(_mm512_sub_epi32(sums[row][j], moved[j]));
    }
  }
}

using MultiplyDotsFunction = void (*)(std::int64_t, const std::uint8_t*, std::int64_t,
                                      const std::int8_t*, std::int64_t, std::int32_t*,
                                      std::int64_t);
constexpr MultiplyDotsFunction kMultiplyDots[] = {MultiplyDots<1>, MultiplyDots<2>, MultiplyDots<3>,
                                                  MultiplyDots<4>};
constexpr std::int64_t kDotRows = 4;

}  // namespace

bool HasInt8Rows() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vnni");
  return has;
}

void PackInt8Strips(std::int64_t k, std::int64_t columns, const std::int8_t* b,
                    std::int64_t inner_stride, std::int64_t column_stride, std::int8_t* strips) {
  const auto pack_group = [&](std::int64_t first, std::int64_t column, std::int8_t* strip) {
    PackGroup(std::min(kGroup, k - first), std::min(kInt8StripColumns, columns - column),
              b + first * inner_stride + column * column_stride, inner_stride, column_stride,
              strip + first * kInt8StripColumns);
  };
  const auto strip_of = [&](std::int64_t column) {
    return strips + column / kInt8StripColumns * Int8StripBytes(k);
  };
  if (column_stride == 1) {
    // Across all strips, as the lines lie in memory.
    for (std::int64_t first = 0; first < k; first += kGroup) {
      for (std::int64_t column = 0; column < columns; column += kInt8StripColumns) {
        pack_group(first, column, strip_of(column));
      }
    }
  }
  for (std::int64_t column = 0; column < columns; column += kInt8StripColumns) {
    std::int8_t* const strip = strip_of(column);
    if (column_stride != 1) {
      std::int64_t first = 0;
      if (columns - column >= kInt8StripColumns && inner_stride == 1) {
        for (; first + 4 * kGroup <= k; first += 4 * kGroup) {
          PackFourGroupsOfColumns(b + column * column_stride + first, column_stride,
                                  strip + first * kInt8StripColumns);
        }
      }
      for (; first < k; first += kGroup) pack_group(first, column, strip);
    }
    SumColumns(Int8Depth(k) / kGroup, strip, strip + Int8Depth(k) * kInt8StripColumns);
  }
}

void PackInt8Line(std::int64_t k, const std::int8_t* a, std::int64_t inner_stride,
                  std::uint8_t* line) {
  std::int64_t i = 0;
  if (inner_stride == 1) {
    constexpr std::int64_t kStep = 16;
    const __m128i move = _mm_set1_epi8(static_cast<char>(0x80));
    for (; i + kStep <= k; i += kStep) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(line + i), _mm_xor_si128(bytes, move));
    }
  }
  for (; i < k; ++i) {
    line[i] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(a[i * inner_stride]) ^ 0x80u);
  }
  std::fill(line + k, line + Int8Depth(k), std::uint8_t{0});
}

void MultiplyInt8Rows(std::int64_t m, std::int64_t n, std::int64_t k, const std::uint8_t* lines,
                      const std::int8_t* strips, std::int32_t* c, std::int64_t ldc) {
  const std::int64_t depth = Int8Depth(k);
  for (std::int64_t column = 0; column < n; column += kInt8StripColumns) {
    const std::int8_t* const strip = strips + column / kInt8StripColumns * Int8StripBytes(k);
    for (std::int64_t row = 0; row < m; ++row) {
      std::memcpy(c + row * ldc + column, strip + depth * kInt8StripColumns,
                  kInt8StripColumns * sizeof(std::int32_t));
    }
    for (std::int64_t first = 0; first < depth; first += kDepth) {
      const std::int64_t groups = std::min(kDepth, depth - first) / kGroup;
      for (std::int64_t row = 0; row < m; row += kTileRows) {
        const std::int64_t rows = std::min(kTileRows, m - row);
        kAddTile[rows - 1](groups, lines + row * depth + first, depth,
                           strip + first * kInt8StripColumns, c + row * ldc + column, ldc);
      }
    }
  }
}

void MultiplyInt8Columns(std::int64_t m, std::int64_t n, std::int64_t k, const std::uint8_t* lines,
                         const std::int8_t* b, std::int64_t column_stride, std::int32_t* c,
                         std::int64_t ldc) {
  const std::int64_t lda = Int8Depth(k);
  for (std::int64_t column = 0; column < n; column += kDotColumns) {
    const std::int64_t columns = std::min(kDotColumns, n - column);
    // Where B has fewer left, one column stands for all four of a call.
    std::int32_t dots[kInt8FewRows][kDotColumns];
    const std::int64_t stride = columns == kDotColumns ? column_stride : 0;
    for (std::int64_t j = 0; j < columns; j += stride == 0 ? 1 : kDotColumns) {
      const std::int8_t* const from = b + (column + j) * column_stride;
      for (std::int64_t row = 0; row < m; row += kDotRows) {
        kMultiplyDots[std::min(kDotRows, m - row) - 1](k, lines + row * lda, lda, from, stride,
                                                       dots[row], kDotColumns);
      }
      const std::int64_t count = stride == 0 ? 1 : kDotColumns;
      for (std::int64_t row = 0; row < m; ++row) {
        std::copy_n(dots[row], count, c + row * ldc + column + j);
      }
    }
  }
}

}  // namespace gemmd
