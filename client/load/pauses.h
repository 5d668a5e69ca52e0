// Keeps a closed loop from trying again at once where nobody answers. Private to load_generator.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "base/time/units.h"
#include "client/load/clock.h"
#include "client/load/load_generator.h"

namespace gemmd::load {

// A server that is away or drains (UNAVAILABLE) is no load to measure. Each lane then pauses before
// its next try: 10 ms, twice as long after each further failure, and at most a millisecond for each
// lane, within 100 ms to 1 s: a thousand tries a second, or one of each lane where there are more
// lanes. Every other code is a server's answer, and the loop goes on. Thread-safe.
class Pauses {
 public:
  explicit Pauses(int lanes)
      : longest_ns_(std::clamp(lanes * kSecond / 1000, kSecond / 10, kSecond)),
        last_ns_(static_cast<std::size_t>(lanes)) {}

  // Says how a lane's try ended. Returns whether the lane is to pause; Over() names it later.
  // REQUIRES: each lane has one try at a time.
  bool Begin(std::uint64_t lane, absl::StatusCode code, TimeNs now_ns) {
    if (code != absl::StatusCode::kUnavailable) {
      last_ns_[lane] = 0;
      return false;
    }
    TimeNs& pause_ns = last_ns_[lane];
    pause_ns = std::clamp(2 * pause_ns, kSecond / 100, longest_ns_);
    const MutexLock lock(mutex_);
    waiting_.emplace_back(now_ns + pause_ns, lane);
    taken_.push_back({now_ns, now_ns + pause_ns});
    return true;
  }

  // Takes the lanes whose pause has ended.
  std::vector<std::uint64_t> Over(TimeNs now_ns) {
    std::vector<std::uint64_t> lanes;
    const MutexLock lock(mutex_);
    const auto over = std::partition(waiting_.begin(), waiting_.end(),
                                     [now_ns](const auto& each) { return each.first > now_ns; });
    for (auto each = over; each != waiting_.end(); ++each) lanes.push_back(each->second);
    waiting_.erase(over, waiting_.end());
    return lanes;
  }

  // Takes all that there were, as times since the run's start.
  std::vector<Turn> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(taken_, {});
  }

 private:
  const TimeNs longest_ns_;
  std::vector<TimeNs> last_ns_;  // the last pause of each lane; 0 once it was answered
  Mutex mutex_;
  std::vector<std::pair<TimeNs, std::uint64_t>> waiting_ ABSL_GUARDED_BY(mutex_);  // end, lane
  std::vector<Turn> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::load
