// Chooses the workload's entry for each request: by weight, and by nothing but seed and index, so
// that neither threads nor timing change what is sent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "client/load/random.h"

namespace gemmd::load {

// Immutable.
class Mix {
 public:
  // REQUIRES: at least one weight, all above 0.
  Mix(const std::vector<double>& weights, std::uint64_t seed) : seed_(Mix64(seed)) {
    double sum = 0;
    for (const double weight : weights) bounds_.push_back(sum += weight);
  }

  std::uint16_t Pick(std::uint64_t index) const {
    const double point = ToUnit(Mix64(seed_ ^ index)) * bounds_.back();
    const auto found = std::upper_bound(bounds_.begin(), bounds_.end() - 1, point);
    return static_cast<std::uint16_t>(found - bounds_.begin());
  }

 private:
  const std::uint64_t seed_;
  std::vector<double> bounds_;  // ascending sums
};

}  // namespace gemmd::load
