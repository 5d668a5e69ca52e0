// Predicts how long an operation takes from its size, learnt from measured times.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/sync/mutex.h"
#include "server/cost/ratio_estimate.h"

namespace gemmd {

// The time of one operation as a function of its size: the launches of a kernel, or copies in one
// direction. A size is given as its basis: the time in us that the operation's rates alone explain,
// by roofline or bandwidth. The real time is an overhead plus a slope times the basis; the overhead
// is unknown, the slope should be about 1. Observations are kept in bands of sizes, each a factor
// of 2 wide, and a size without observations is predicted from its neighbours:
//   between two observed sizes   on the line through them
//   beyond the last one          on the line through it and a smaller one that took at most half
//                                as long; where there is none, half way, in logarithms, between
//                                "all of it was overhead" and "all of it was slope" for the next
//                                factor of 4, and as its rates have it from there
//   before the first one         half way, in logarithms, between the same two
// So a product of 1 by 1, all overhead, says nothing of one a million times larger, and what
// is within a factor of 4 of an observation is predicted within one of 2.
//
// A band with few observations may hold nothing but an outlier. So its time is cut to what its
// neighbours allow: no more than a larger size took, and no more for its size than a smaller one.
//
// Thread-safe: a short lock each. About 6 KiB.
class TimeCurve {
 public:
  static constexpr double kNear = 4;

  struct Point {
    double us = 0;         // expected
    double least_us = 0;   // lower bound by observations near this size; 0: there are too few
    bool is_near = false;  // something was observed within a factor of kNear
  };
  // Nothing where nothing was observed. REQUIRES, as the next two: basis_us > 0.
  std::optional<Point> Predict(double basis_us) const;
  // REQUIRES: us > 0
  void Observe(double basis_us, double us);
  // A request of this size was refused because of its least_us.
  void ObserveRefusal(double basis_us);

 private:
  static constexpr int kBands = 64;

  // A band as a point of the curve.
  struct Anchor {
    double basis_us = 0;
    double us = 0;
    double least_us = 0;

    double slope() const { return us / basis_us; }
  };
  struct Band {
    RatioEstimate ratio;   // of what was observed to its basis
    float log2_basis = 0;  // weighted like the ratio
    Anchor anchor;         // both, as predictions need them
  };

  static int BandOf(double basis_us);
  Band& At(int band) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return bands_[static_cast<std::size_t>(band)];
  }
  const Band& At(int band) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return bands_[static_cast<std::size_t>(band)];
  }
  bool IsSettled(int band) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return At(band).ratio.count() == RatioEstimate::kFirst;
  }
  static void SetAnchor(Band* band);
  // The nearest observed band with no larger, or with a larger, basis; -1: there is none.
  int AtMost(double basis_us) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int Above(double basis_us) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its anchor, cut to what its neighbours allow.
  Anchor Believed(int band) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double Beyond(int last, double basis_us) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable AdaptiveMutex mutex_;
  std::array<Band, kBands> bands_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // a bit for each band with observations
};

}  // namespace gemmd
