// Tells when an operand is worth another copy: a ski is bought once renting has cost as much.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/time/clock.h"

namespace gemmd {

// Sums what requests would have gained, had another device held the operand too, until the sum is
// the price of a copy. This is ski rental, and 2-competitive: copies never cost much more than was
// lost before them, and no more is lost than twice the least that hindsight allows. An earlier gain
// counts less, so that a cold operand gets no copy for what it once was. A value, not thread-safe;
// it is told the time. Invariant: the sum is finite, not negative, and at most the last price.
class CopyDemand {
 public:
  static constexpr TimeNs kHalfLife = 1'000'000'000;
  // A copy that pressure took is not wanted again before: one that comes and goes costs more than
  // it gives.
  static constexpr TimeNs kRest = 10 * kHalfLife;

  // Adds one request's gain. Returns whether the sum is the price.
  bool Add(double gain_us, double price_us, TimeNs now) {
    if (now < rests_until_) return false;
    if (now > counted_at_) {
      sum_us_ *= std::exp2(-static_cast<double>(now - counted_at_) / kHalfLife);
      counted_at_ = now;
    }
    // Written so that no number fails it too.
    if (!(gain_us > 0 && price_us > 0 && std::isfinite(price_us))) return false;
    // One request alone is no history.
    sum_us_ = std::min(sum_us_ + std::min(gain_us, price_us / 2), price_us);
    return sum_us_ >= price_us;
  }
  // The copy is under way: another one is to be earned anew.
  void Forget() { sum_us_ = 0; }
  // The copy found no memory, or lost it to others.
  void Rest(TimeNs now) {
    sum_us_ = 0;
    rests_until_ = std::max(rests_until_, now + kRest);
  }

  double sum_us() const { return sum_us_; }

 private:
  double sum_us_ = 0;
  TimeNs counted_at_ = 0;
  TimeNs rests_until_ = 0;
};

}  // namespace gemmd
