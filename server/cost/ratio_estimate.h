// Learns the ratio of the time that something takes to the time predicted.
#pragma once

#include <array>
#include <cstdint>

namespace gemmd {

// A ratio's expected value, and a lower bound that measurements rarely undercut.
struct RatioRange {
  double usual = 1;
  double least = 0;  // 0: too few measurements for a bound
};

// A value of 48 bytes or so. All arithmetic is on logarithms, because being wrong by 2 and by
// 1/2 are equal faults.
//
// The usual value is the median of the first kFirst observations (the lower of two in the middle:
// what comes too late is more usual than what comes too soon); from then on an exponentially
// weighted mean, each step of which is limited to a few times the usual deviation. So one outlier
// moves it by a fraction of that deviation, and a lasting change, which makes deviations usual,
// is followed within some twenty observations.
//
// The least value is some deviations below the usual one, once kEnough were observed. Requests are
// refused by it, and a refused request is not observed: so each refusal lowers it a little, until
// one is tried again. An observation below it lowers it to that; one above it restores it by half.
class RatioEstimate {
 public:
  static constexpr int kFirst = 5;
  static constexpr int kEnough = 3;
  static constexpr int kRefusalsPerHalf = 4;

  // REQUIRES: ratio > 0 and finite; beyond 2^-30 and 2^30 these count.
  void Observe(double ratio);
  // A request was refused because of range().least.
  void ObserveRefusal();

  // {1, 0} where nothing was observed.
  RatioRange range() const { return range_; }
  double ratio() const { return range_.usual; }
  bool is_empty() const { return count_ == 0; }
  // The number of observations, up to kFirst.
  int count() const { return count_; }

 private:
  float LeastLogarithm() const;
  void SetRange();

  std::array<float, kFirst> first_{};  // logarithms, sorted
  float center_ = 0;                   // of logarithms
  float deviation_ = 0;                // mean absolute, of logarithms
  std::int16_t count_ = 0;             // up to kFirst
  std::int16_t doubts_ = 0;            // kRefusalsPerHalf of them halve the least
  RatioRange range_;                   // kept, because predictions are more usual
};

}  // namespace gemmd
