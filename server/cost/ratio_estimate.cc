#include "server/cost/ratio_estimate.h"

#include <algorithm>
#include <cmath>

namespace gemmd {
namespace {

constexpr float kWeight = 0.125F;         // of a new observation
constexpr float kLeastDeviation = 0.02F;  // clocks and caches alone make 2 % of difference
constexpr float kStepDeviations = 3;      // how far one observation is believed
constexpr double kMostRatio = 1U << 30U;

// The distance of the least value from the usual one: five per cent of noise three times over, or
// more where deviations are larger.
constexpr float kRangeDeviations = 3;
constexpr float kRangeDeviation = 0.05F;
constexpr float kDoubt = 0.6931472F / RatioEstimate::kRefusalsPerHalf;
constexpr std::int16_t kMostDoubts = 64 * RatioEstimate::kRefusalsPerHalf;

}  // namespace

void RatioEstimate::Observe(double ratio) {
  const auto value = static_cast<float>(std::log(std::clamp(ratio, 1 / kMostRatio, kMostRatio)));
  const float least = LeastLogarithm();
  const bool is_undercut = count_ >= kEnough && value < least;
  if (count_ < kFirst) {
    first_[static_cast<std::size_t>(count_)] = value;
    ++count_;
    const auto end = first_.begin() + count_;
    std::sort(first_.begin(), end);
    center_ = first_[static_cast<std::size_t>((count_ - 1) / 2)];
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
  doubts_ = static_cast<std::int16_t>(doubts_ / 2);
  if (is_undercut) {
    const float over = LeastLogarithm() - value;
    const float more = std::clamp(std::ceil(over / kDoubt), 0.0F, static_cast<float>(kMostDoubts));
    doubts_ =
        static_cast<std::int16_t>(std::min<int>(doubts_ + static_cast<int>(more), kMostDoubts));
  }
  SetRange();
}

void RatioEstimate::ObserveRefusal() {
  doubts_ = std::min<std::int16_t>(static_cast<std::int16_t>(doubts_ + 1), kMostDoubts);
  SetRange();
}

float RatioEstimate::LeastLogarithm() const {
  return center_ - kRangeDeviations * std::max(deviation_, kRangeDeviation) -
         kDoubt * static_cast<float>(doubts_);
}

void RatioEstimate::SetRange() {
  range_.usual = count_ == 0 ? 1 : std::exp(static_cast<double>(center_));
  range_.least = count_ < kEnough ? 0 : std::exp(static_cast<double>(LeastLogarithm()));
}

}  // namespace gemmd
