// Summaries of a handful of repeated measurements. Pure.
#pragma once

#include <vector>

namespace gemmd::bench {

// The middle value, or the mean of the two in the middle. REQUIRES: not empty.
double Median(std::vector<double> values);

// The median with the lowest and highest values beside it, so that a reader sees how much
// repeats differ.
struct Summary {
  double median = 0;
  double lowest = 0;
  double highest = 0;

  // (highest - lowest) / median: 0.02 says that repeats lie within 2 %.
  double spread() const { return median == 0 ? 0 : (highest - lowest) / median; }
};

// REQUIRES: not empty.
Summary Summarize(const std::vector<double>& values);

// REQUIRES: not empty, all positive.
double GeometricMean(const std::vector<double>& values);

}  // namespace gemmd::bench
