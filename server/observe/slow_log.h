// The receipts of requests that took long, in the log: a bounded number of them a second, and of
// the last ones in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/observe/receipt.h"

namespace gemmd {

// Thread-safe.
class SlowLog {
 public:
  struct Options {
    TimeNs threshold = 0;       // a request that takes longer is slow; 0: none is
    int lines_per_second = 10;  // at least 1; ten times as many at once
  };
  static constexpr std::size_t kRemembered = 32;

  explicit SlowLog(const Options& options) { SetOptions(options); }

  // From here on.
  void SetOptions(const Options& options);

  bool IsSlow(const Receipt& receipt) const {
    const TimeNs threshold = threshold_;
    return threshold != 0 && receipt.finish - receipt.arrival > threshold;
  }
  // Writes "slow_request": the receipt, each stage's exposed time, and how many slow requests were
  // left out since the line before. A tenant's name is cut to its first 128 bytes. REQUIRES: the
  // receipt is finished.
  void Record(const Receipt& finished);

  // The last ones, the newest first, whether they were written or not.
  std::vector<Receipt> recent() const;

 private:
  static void Write(const Receipt& receipt, std::uint64_t left_out);

  std::atomic<TimeNs> threshold_{0};  // which every request is asked for
  mutable Mutex mutex_;
  int lines_per_second_ ABSL_GUARDED_BY(mutex_) = 1;
  // Paid as for connections (server/net/connection_table.h): each line is an interval.
  TimeNs paid_until_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<TimeNs>::min();
  std::uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Receipt> recent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
