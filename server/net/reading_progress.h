// Measures whether a connection's peer reads what waits for it.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time/clock.h"
#include "server/observe/progress.h"

namespace gemmd {

// The state of a connection's send queue in the kernel, at one moment.
struct SendQueue {
  std::uint64_t acknowledged = 0;  // bytes, by the peer, since it connected
  std::uint64_t waiting = 0;       // bytes that were sent and are not acknowledged
  bool has_room = true;            // its owner can send more at once
};

// A value, which looks at the queue now and then. Bytes that wait at each look do not make a client
// slow: one that is far away and asks again and again has an answer under way at any time. So where
// the queue has room, a peer that took all that once waited begins anew. If it has none, its owner
// keeps what it could not send, and only the rate counts.
class ReadingProgress {
 public:
  void Look(const SendQueue& queue, const ProgressLimit& limit, TimeNs now) {
    const bool waited = std::exchange(is_waiting_, queue.waiting != 0);
    const bool took_all = queue.has_room && queue.acknowledged >= end_;
    if (!is_waiting_) {
      progress_ = Progress();
    } else if (!waited || took_all) {
      progress_ = Progress(limit, now);
      end_ = queue.acknowledged + queue.waiting;
    } else {
      progress_.Record(queue.acknowledged - acknowledged_, now);
    }
    acknowledged_ = queue.acknowledged;
  }

  // Returns whether it had stalled at the last look.
  bool IsStalled(TimeNs now) const { return progress_.IsStalled(now); }

 private:
  Progress progress_;
  bool is_waiting_ = false;
  std::uint64_t acknowledged_ = 0;  // at the last look
  std::uint64_t end_ = 0;           // of what waited when progress_ began, counted as acknowledged
};

// The rate at which a connection's bytes move, in both directions: a value, which is told their
// number now and then.
class MovingRate {
 public:
  void Look(std::uint64_t bytes, TimeNs now) {
    constexpr TimeNs kPeriod = 1'000'000'000;
    if (!is_known_ || now - begin_ >= kPeriod) {
      if (is_known_) {
        per_second_ = static_cast<double>(bytes - bytes_) * 1e9 / static_cast<double>(now - begin_);
      }
      is_known_ = true;
      begin_ = now;
      bytes_ = bytes;
    }
  }

  // Returns whether anybody tells it.
  bool is_known() const { return is_known_; }
  // The rate in the last period of a second or more; 0 before the first one has ended.
  double per_second() const { return per_second_; }

 private:
  bool is_known_ = false;
  TimeNs begin_ = 0;
  std::uint64_t bytes_ = 0;
  double per_second_ = 0;
};

}  // namespace gemmd
