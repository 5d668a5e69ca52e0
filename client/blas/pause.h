// The time for which a server that failed is left alone.
#pragma once

#include <algorithm>
#include <chrono>

namespace gemmd::blas {

// Not thread-safe. Each failure doubles the pause, from a second to a minute; after a product that
// the server computed it is a second again. So a server that is gone costs an attempt a minute, and
// one that was restarted is used again within one.
class Pause {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  bool IsOn(TimePoint now) const { return now < until_; }
  void Failed(TimePoint now) {
    if (IsOn(now)) return;  // calls that were under way together fail together
    next_ = next_ == kNone ? kLeast : std::min(2 * next_, kMost);
    until_ = now + next_;
  }
  // The server said when to come back.
  void ComeBack(TimePoint now, std::chrono::milliseconds after) {
    until_ = std::max(until_, now + std::min(after, kMost));
  }
  void Succeeded() { next_ = kNone; }

 private:
  static constexpr std::chrono::milliseconds kNone{0};
  static constexpr std::chrono::milliseconds kLeast{1000};
  static constexpr std::chrono::milliseconds kMost{60000};

  std::chrono::milliseconds next_ = kNone;
  TimePoint until_{};
};

}  // namespace gemmd::blas
