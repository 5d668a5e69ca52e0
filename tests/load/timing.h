// Helpers that benchmarks share: a wall clock around something, and medians.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace gemmd {

inline double Seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The upper one of the two in the middle, where there are two. REQUIRES: not empty.
inline double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace gemmd
