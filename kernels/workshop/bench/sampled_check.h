// A large product's result against binary64 on some of its elements. Pure: elements of operands are
// computed again from their seeds.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/problem.h"

namespace gemmd::bench {

inline constexpr std::uint64_t kSeedOfA = 0x5eed0a;
inline constexpr std::uint64_t kSeedOfB = 0x5eed0b;
inline constexpr std::uint64_t kSeedOfAScales = 0x5eed1a;
inline constexpr std::uint64_t kSeedOfBScales = 0x5eed1b;

// `count` numbers below `extent`, spread evenly with the first and the last among them; all where
// there are fewer.
std::vector<std::int64_t> Sampled(std::int64_t extent, int count);

// Return the element that RandomWord() put at an index of a plane, and the one at an index of a
// result. A code of E8M0 counts as the scale that it stands for.
double RandomElement(DataType type, std::uint64_t seed, std::uint64_t index);
double ReadElement(DataType type, const char* plane, std::int64_t index);

// The worst |D - exact| over its bound at rows x columns of a row-major D; infinite where D holds a
// NaN. lines[i] are the bytes of row rows[i]. The bound is what the project's kernels state for the
// accumulator (1.25 * (K + 16) * u * |A||B|, and 2^-11 or 2^-9 of |A||B| more for fp8 and tf32;
// block-scaled products keep that without more, by
// kernels/workshop/blackwell_mxfp8/ladder_d_registry.h), plus half a unit in the last place of the
// output; exact for integers. Sums in f16 are held to LooseLimit() instead, because that bound
// would let anything pass at a large K.
double WorstError(const Problem& problem, const std::vector<std::int64_t>& rows,
                  const std::vector<std::int64_t>& columns,
                  const std::vector<std::vector<char>>& lines);

// Returns the largest difference that two right results may have at any element: a multiple of
// sqrt(K), which is the deviation of D's elements, so that a wrong or unwritten element is nearly
// always beyond it. 0 for integers.
double LooseLimit(const Problem& problem);

}  // namespace gemmd::bench
