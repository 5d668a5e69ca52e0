// The server's last hour as curves, in a number of bytes that never changes.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/observe/duration_histogram.h"
#include "server/observe/statistics.h"

namespace gemmd {

// Counters since the start, and gauges, of one moment.
struct HistorySample {
  std::uint64_t ok = 0;      // products that ended so
  std::uint64_t not_ok = 0;  // those that were refused, and those that failed
  double flops = 0;
  DurationHistogram durations;  // of those that ended OK
  std::uint64_t in_flight = 0;
  double backlog_seconds = 0;  // of the device that is most behind
};

// All of it but the backlog.
HistorySample SampleOf(const Statistics::Snapshot& totals);

// A stretch of time: rates over it, and the most that its samples saw.
struct HistoryPoint {
  TimeNs begin = 0;
  TimeNs end = 0;
  double ok_per_second = 0;
  double not_ok_per_second = 0;
  double flops_per_second = 0;
  std::optional<double> p50_seconds;  // absent: nothing ended OK
  std::optional<double> p99_seconds;
  std::uint64_t in_flight = 0;
  double backlog_seconds = 0;
};

// The value below which that part of the durations lies, in seconds; 0 <= part <= 1. A histogram
// knows only the bucket: within it the durations are taken for evenly spread, as Prometheus'
// histogram_quantile() has it, and above the greatest bound the answer is that bound. Absent: there
// is no duration.
std::optional<double> Quantile(const DurationHistogram& durations, double part);

// The last points of one length. Points begin and end with the samples that first came in a
// multiple of the length: where no sample came for longer, one point is so much longer, and no time
// is without one.
class HistoryRing {
 public:
  // REQUIRES: all are at least 1.
  HistoryRing(TimeNs length, std::size_t points) : length_(length), points_(points) {}

  // REQUIRES: no counter and no moment is less than that of the call before.
  void Add(TimeNs now, const HistorySample& sample);

  TimeNs length() const { return length_; }
  // The oldest first.
  std::vector<HistoryPoint> points() const;

 private:
  const TimeNs length_;
  std::vector<HistoryPoint> points_;  // of which `count_` are there, the oldest at `next_` - count_
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::optional<TimeNs> begin_;  // of the point that has not ended; absent: no sample came yet
  HistorySample first_;          // the one there
  std::uint64_t most_in_flight_ = 0;
  double most_backlog_seconds_ = 0;
};

// Samples the server on a thread of its own, for a curve of the last minutes and one of the hour.
// Thread-safe.
class History {
 public:
  using Read = std::function<HistorySample()>;
  static constexpr TimeNs kPeriod = 2'000'000'000;
  static constexpr std::size_t kRecentPoints = 150;  // 5 minutes
  static constexpr TimeNs kLongPeriod = 10'000'000'000;
  static constexpr std::size_t kLongPoints = 360;  // an hour

  // Zero period: only when told, for tests. Takes the first sample. The clock, and what `read`
  // uses, outlive it.
  History(Read read, const Clock* clock, std::chrono::nanoseconds period);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  void SampleNow();

  struct Curves {
    HistoryRing recent{kPeriod, kRecentPoints};
    HistoryRing hour{kLongPeriod, kLongPoints};
  };
  Curves curves() const;

 private:
  void Run(std::chrono::nanoseconds period);

  const Read read_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Curves curves_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd
