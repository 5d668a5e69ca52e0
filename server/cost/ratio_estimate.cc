#include "server/cost/ratio_estimate.h"

#include <algorithm>
#include <cmath>

namespace gemmd {
namespace {

constexpr float kWeight = 0.125F;         // of a new observation
constexpr float kLeastDeviation = 0.02F;  // clocks and caches alone make 2 % of difference
constexpr float kStepDeviations = 3;      // how far one observation is believed
constexpr double kMostRatio = 1U << 30U;

}  // namespace

void RatioEstimate::Observe(double ratio) {
  const auto value = static_cast<float>(std::log(std::clamp(ratio, 1 / kMostRatio, kMostRatio)));
  if (count_ < kFirst) {
    first_[count_] = value;
    ++count_;
    const auto end = first_.begin() + count_;
    std::sort(first_.begin(), end);
    center_ = first_[(count_ - 1) / 2];
    deviation_ = 0;
    for (auto each = first_.begin(); each != end; ++each) {
      // Limited like a later one: an outlier must not make the next one believed.
      deviation_ += std::min(std::abs(*each - center_), 1.0F) / static_cast<float>(count_);
    }
  } else {
    const float limit = kStepDeviations * std::max(deviation_, kLeastDeviation);
    const float step = std::clamp(value - center_, -limit, limit);
    center_ += kWeight * step;
    deviation_ += kWeight * (std::abs(step) - deviation_);
  }
  deviation_ = std::max(deviation_, kLeastDeviation);
  ratio_ = std::exp(static_cast<double>(center_));
}

}  // namespace gemmd
