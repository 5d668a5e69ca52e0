#include "server/scheduling/adaptive_limit.h"

#include <algorithm>

namespace gemmd {

void AdaptiveLimit::Observe(double predicted_us, double measured_us) {
  // Sums, so that long waits count for more than many short ones.
  predicted_us_ += std::max(predicted_us, options_.floor_us);
  measured_us_ += measured_us;
  if (++observed_ < options_.window) return;
  constexpr double kGrowth = 1.1;
  constexpr double kSteepestFall = 0.5;
  const double gradient = options_.tolerance * predicted_us_ / std::max(measured_us_, 1.0);
  if (gradient < 1) {
    limit_us_ *= std::max(kSteepestFall, gradient);
  } else if (was_limiting_) {
    limit_us_ *= kGrowth;
  }
  limit_us_ = std::clamp(limit_us_, options_.min_us, options_.max_us);
  observed_ = 0;
  predicted_us_ = measured_us_ = 0;
  was_limiting_ = false;
}

}  // namespace gemmd
