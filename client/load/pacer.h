// Sends an open loop's requests when they are due. Private to load_generator.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/time/units.h"
#include "client/load/arrivals.h"
#include "client/load/clock.h"

namespace gemmd::load {

// One sender's share of a schedule: of `senders` pacers over equal plans, number i sends
// requests i, i + senders, ... Not thread-safe, but for what is atomic.
class Pacer {
 public:
  // Starts request `index`, due at `intended_ns` since the start.
  using SendDue = std::function<void(std::uint64_t index, TimeNs intended_ns)>;
  // Returns whether a request must wait before it may be sent.
  using IsFull = std::function<bool()>;

  Pacer(const ArrivalPlan& plan, int number, int senders, Clock& clock, TimeNs start)
      : arrivals_(MakeArrivals(plan)), senders_(senders), clock_(clock), start_(start) {
    for (int i = 0; i <= number; ++i) next_ = arrivals_->Next();
    index_ = static_cast<std::uint64_t>(number);
  }

  // Sends what is due before `until_ns` (since the start). Returns at that time, or
  // earlier: once nothing is left, or soon after `stopping` is set.
  void RunUntil(TimeNs until_ns, const std::atomic<bool>& stopping, const SendDue& send,
                const IsFull& is_full) {
    // Slices, so that a stop is seen however far away the next request is.
    constexpr TimeNs kSliceNs = kSecond / 20;
    constexpr TimeNs kFullPollNs = 100000;
    for (TimeNs now = Elapsed(); !stopping && next_ && now < until_ns; now = Elapsed()) {
      if (*next_ <= now) {
        if (is_full()) {
          clock_.SleepUntil(start_ + now + kFullPollNs);
          continue;
        }
        send(index_, *next_);
        Advance();
      } else {
        clock_.SleepUntil(start_ + std::min({*next_, until_ns, now + kSliceNs}));
      }
    }
  }

  // Visits the requests that were due before `end_ns` and are unsent.
  template <typename Visit>
  void VisitUnsent(TimeNs end_ns, const Visit& visit) {
    for (; next_ && *next_ < end_ns; Advance()) visit(index_, *next_);
  }

  bool exhausted() const { return !next_; }

 private:
  TimeNs Elapsed() const { return clock_.Now() - start_; }

  void Advance() {
    for (int i = 0; i < senders_; ++i) next_ = arrivals_->Next();
    index_ += static_cast<std::uint64_t>(senders_);
  }

  const std::unique_ptr<Arrivals> arrivals_;
  const int senders_;
  Clock& clock_;
  const TimeNs start_;
  std::optional<TimeNs> next_;
  std::uint64_t index_ = 0;
};

}  // namespace gemmd::load
