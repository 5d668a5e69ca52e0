#include "server/observe/energy_meter.h"

#include <algorithm>

namespace gemmd {
namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr TimeNs kLeastShare = 10;  // of a period: one part in so many

}  // namespace

void EnergyMeter::AddLaunch(TimeNs start, TimeNs end) {
  const MutexLock lock(mutex_);
  if (!last_.has_value()) return;
  // A long launch began in an earlier period, whose energy is not in this one.
  computed_ += std::max<TimeNs>(0, end - std::max(start, last_->at));
}

void EnergyMeter::AddReading(TimeNs now, double joules) {
  const MutexLock lock(mutex_);
  if (last_.has_value() && now > last_->at && joules >= last_->joules &&
      computed_ >= (now - last_->at) / kLeastShare && computed_ > 0) {
    watts_ = (joules - last_->joules) / (static_cast<double>(computed_) * kSecondsPerNs);
  }
  last_ = Reading{now, joules};
  computed_ = 0;
}

std::optional<double> EnergyMeter::JoulesOf(double seconds) const {
  const MutexLock lock(mutex_);
  if (!watts_.has_value()) return std::nullopt;
  return *watts_ * seconds;
}

}  // namespace gemmd
