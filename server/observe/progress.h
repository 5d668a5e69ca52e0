// Measures whether the bytes that a client owes, or should read, move.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/time/clock.h"

namespace gemmd {

// limits.stall_timeout_ms and limits.min_bytes_per_second.
struct ProgressLimit {
  TimeNs window = 30'000'000'000;
  std::uint64_t bytes_per_second = 16384;
};

// The progress of one transfer: a value. It has stalled if there is a period, up to now, in which
// fewer bytes moved than the rate asks for in what the period is longer than the window. So a
// transfer that ends within the window never stalls, one that stops stalls a window later, and what
// was fast before cannot be slow for longer.
class Progress {
 public:
  // Nothing is to move: it never stalls.
  Progress() = default;
  // Begins now.
  Progress(const ProgressLimit& limit, TimeNs now) : limit_(limit), due_(now + limit.window) {}
  // Begins now, of a transfer of which nothing is seen before all of its bytes have moved.
  static Progress OfWhole(const ProgressLimit& limit, std::uint64_t bytes, TimeNs now) {
    Progress progress(limit, now);
    progress.due_ = progress.DueOfWhole(bytes);
    return progress;
  }

  void Record(std::uint64_t bytes, TimeNs now) {
    due_ = std::min(due_ + TimeOf(bytes), now + limit_.window);
  }

  bool IsStalled(TimeNs now) const { return now > due_; }
  // The last moment at which it has not stalled unless more bytes move.
  TimeNs due() const { return due_; }
  // The last moment before it stalls where `bytes` are under way, none of which is seen before all
  // of them have moved.
  TimeNs DueOfWhole(std::uint64_t bytes) const { return due_ + TimeOf(bytes); }

 private:
  // The time that the bytes take at the rate; years are enough for any of them.
  TimeNs TimeOf(std::uint64_t bytes) const {
    constexpr double kMost = 1e18;
    return static_cast<TimeNs>(std::min(
        kMost, static_cast<double>(bytes) * 1e9 / static_cast<double>(limit_.bytes_per_second)));
  }

  ProgressLimit limit_;
  TimeNs due_ = kNoDeadline;
};

// DEADLINE_EXCEEDED: "the client read slower than ...", where `what` is "the client read".
absl::Status StalledError(absl::string_view what, const ProgressLimit& limit);

}  // namespace gemmd
