#include "server/rpc/calls/costly_calls.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

constexpr TimeNs kShareOfTime = 10;
constexpr TimeNs kShort = 20 * kMillisecond;  // no more than many another call

}  // namespace

absl::StatusOr<CostlyCalls::Place> CostlyCalls::Enter() {
  const MutexLock lock(mutex_);
  if (taken_ == most_) {
    return WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                              taken_, " such calls are being answered, which is the limit")),
                          WaitsFor::kClients);
  }
  if (const TimeNs now = clock_->Now(); now < next_) {
    return WithRetryAfter(
        absl::ResourceExhaustedError("such a call was answered a moment ago, and took long"),
        WaitsFor::kCalls, (next_ - now) / kMillisecond + 1);
  }
  ++taken_;
  return Place(nullptr, [this](void*) {
    const MutexLock give_back(mutex_);
    --taken_;
  });
}

void CostlyCalls::Worked(TimeNs start) {
  const TimeNs now = clock_->Now();
  if (now - start < kShort) return;
  const MutexLock lock(mutex_);
  next_ = std::max(next_, now + (kShareOfTime - 1) * (now - start));
}

}  // namespace gemmd
