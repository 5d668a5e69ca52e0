// Exact products of int8 by AVX-512 VNNI: four products a lane and instruction.
//
// vpdpbusd multiplies unsigned by signed bytes and adds four products to an int32 without
// saturating (Intel SDM, VPDPBUSD). So A's bytes are moved by 128, and 128 times the sum of each
// column of B is taken from every element of that column; both are exact modulo 2^32, and the
// result is the exact product where that fits an int32.
#pragma once

#include <cstdint>

namespace gemmd {

// B is kept in strips of so many columns, K in groups of four.
inline constexpr std::int64_t kInt8StripColumns = 32;

// Returns whether this machine has the instructions. Nothing below may be called where it has not.
bool HasInt8Rows();

// K rounded up to a group: the pitch of a line of A, and what a strip of B is long.
inline std::int64_t Int8Depth(std::int64_t k) { return (k + 3) / 4 * 4; }

// Bytes of a packed strip: its codes, then an int32 for each column.
inline std::int64_t Int8StripBytes(std::int64_t k) {
  return kInt8StripColumns * (Int8Depth(k) + 4);
}

// Columns [0, columns) of B as strips, Int8StripBytes(k) apart, with zeros beside them and below.
// `strips` is aligned to 64 bytes. Where B's lines go along N, several strips at once take less
// time each, because they share cache lines.
void PackInt8Strips(std::int64_t k, std::int64_t columns, const std::int8_t* b,
                    std::int64_t inner_stride, std::int64_t column_stride, std::int8_t* strips);

// A line of A: moved by 128; what fills the group up is any byte, as B has zeros there.
void PackInt8Line(std::int64_t k, const std::int8_t* a, std::int64_t inner_stride,
                  std::uint8_t* line);

// C (m x n int32, row-major, lines `ldc` apart) = lines of A, Int8Depth(k) apart, times strips of
// B, Int8StripBytes(k) apart. C's lines have room for whole strips. One thread.
void MultiplyInt8Rows(std::int64_t m, std::int64_t n, std::int64_t k, const std::uint8_t* lines,
                      const std::int8_t* strips, std::int32_t* c, std::int64_t ldc);

// With at most so many rows of A, columns whose elements of K are neighbours take less time where
// they lie than packed.
inline constexpr std::int64_t kInt8FewRows = 8;

// C = lines of A times columns of B as they lie in memory, `column_stride` apart.
// m <= kInt8FewRows.
void MultiplyInt8Columns(std::int64_t m, std::int64_t n, std::int64_t k, const std::uint8_t* lines,
                         const std::int8_t* b, std::int64_t column_stride, std::int32_t* c,
                         std::int64_t ldc);

}  // namespace gemmd
