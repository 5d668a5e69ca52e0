// How many times longer something takes than it was predicted to, learnt from what it took.
#pragma once

#include <array>

namespace gemmd {

// A value of 40 bytes or so. All arithmetic is on logarithms, because being wrong by 2 and by
// 1/2 are equal faults.
//
// The median of the first kFirst observations (the lower of two in the middle: what comes too
// late is more usual than what comes too soon); from then on an exponentially weighted mean,
// each step of which is limited to a few times the usual deviation. So one outlier moves it by
// a fraction of that deviation, and a lasting change, which makes deviations usual, is followed
// within some twenty observations.
class RatioEstimate {
 public:
  static constexpr int kFirst = 5;

  // REQUIRES: ratio > 0 and finite; beyond 2^-30 and 2^30 these count.
  void Observe(double ratio);

  // 1 where nothing was observed.
  double ratio() const { return ratio_; }
  bool is_empty() const { return count_ == 0; }

 private:
  std::array<float, kFirst> first_{};  // logarithms, sorted
  float center_ = 0;                   // of logarithms
  float deviation_ = 0;                // mean absolute, of logarithms
  int count_ = 0;                      // up to kFirst
  double ratio_ = 1;                   // exp(center_): predictions are more usual
};

}  // namespace gemmd
