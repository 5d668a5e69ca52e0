// Exact percentiles by nearest rank: always a value that was measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "client/load/clock.h"

namespace gemmd::load {

// The smallest position such that `percent` of `count` values are at or before it.
// REQUIRES: count > 0, 0 <= percent <= 100.
inline std::size_t PercentileRank(std::size_t count, double percent) {
  // The guard takes back what rounding may add: 99.9 of 1000 is the 999th value.
  const double rank = std::ceil(percent / 100 * static_cast<double>(count) - 1e-9);
  return std::min(count - 1, static_cast<std::size_t>(std::max(rank, 1.0)) - 1);
}

// The percentile of sorted values; 0 of none.
inline TimeNs PercentileOf(const std::vector<TimeNs>& sorted, double percent) {
  return sorted.empty() ? 0 : sorted[PercentileRank(sorted.size(), percent)];
}

// The percentile of unsorted values, whose order it changes; 0 of none.
inline TimeNs SelectPercentile(std::vector<TimeNs>& values, double percent) {
  if (values.empty()) return 0;
  const auto rank =
      values.begin() + static_cast<std::ptrdiff_t>(PercentileRank(values.size(), percent));
  std::nth_element(values.begin(), rank, values.end());
  return *rank;
}

}  // namespace gemmd::load
