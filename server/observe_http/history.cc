#include "server/observe_http/history.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gemmd {
namespace {

constexpr double kSecondsPerNs = 1e-9;

DurationHistogram Since(const DurationHistogram& first, const DurationHistogram& last) {
  DurationHistogram between = last;
  for (std::size_t i = 0; i < between.counts.size(); ++i) between.counts[i] -= first.counts[i];
  between.sum -= first.sum;
  return between;
}

}  // namespace

HistorySample SampleOf(const Statistics::Snapshot& totals) {
  HistorySample sample;
  for (const auto& [code, count] : totals.finished)
    (code == "OK" ? sample.ok : sample.not_ok) += count;
  sample.flops = totals.flops;
  sample.durations = totals.durations;
  sample.in_flight = totals.in_flight;
  return sample;
}

std::optional<double> Quantile(const DurationHistogram& durations, double part) {
  const auto& counts = durations.counts;
  const auto all =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  if (all == 0) return std::nullopt;
  const double rank = part * all;
  double below = 0;
  TimeNs least = 0;
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) {
    const auto here = static_cast<double>(counts[i]);
    if (here > 0 && below + here >= rank) {
      const double share = (rank - below) / here;
      const auto width = static_cast<double>(kDurationBounds[i] - least);
      return (static_cast<double>(least) + share * width) * kSecondsPerNs;
    }
    below += here;
    least = kDurationBounds[i];
  }
  return static_cast<double>(least) * kSecondsPerNs;
}

void HistoryRing::Add(TimeNs now, const HistorySample& sample) {
  most_in_flight_ = std::max(most_in_flight_, sample.in_flight);
  most_backlog_seconds_ = std::max(most_backlog_seconds_, sample.backlog_seconds);
  if (begin_.has_value() && now / length_ == *begin_ / length_) return;
  if (begin_.has_value()) {
    const double seconds = static_cast<double>(now - *begin_) * kSecondsPerNs;
    const DurationHistogram durations = Since(first_.durations, sample.durations);
    HistoryPoint& point = points_[next_];
    point.begin = *begin_;
    point.end = now;
    point.ok_per_second = static_cast<double>(sample.ok - first_.ok) / seconds;
    point.not_ok_per_second = static_cast<double>(sample.not_ok - first_.not_ok) / seconds;
    point.flops_per_second = (sample.flops - first_.flops) / seconds;
    point.p50_seconds = Quantile(durations, 0.5);
    point.p99_seconds = Quantile(durations, 0.99);
    point.in_flight = most_in_flight_;
    point.backlog_seconds = most_backlog_seconds_;
    next_ = (next_ + 1) % points_.size();
    count_ = std::min(count_ + 1, points_.size());
  }
  begin_ = now;
  first_ = sample;
  most_in_flight_ = sample.in_flight;
  most_backlog_seconds_ = sample.backlog_seconds;
}

std::vector<HistoryPoint> HistoryRing::points() const {
  std::vector<HistoryPoint> points;
  points.reserve(count_);
  const std::size_t oldest = (next_ + points_.size() - count_) % points_.size();
  for (std::size_t i = 0; i < count_; ++i) points.push_back(points_[(oldest + i) % points_.size()]);
  return points;
}

History::History(Read read, const Clock* clock, std::chrono::nanoseconds period)
    : read_(std::move(read)), clock_(clock) {
  SampleNow();
  if (period.count() > 0) {
    thread_ = std::thread([this, period] { Run(period); });
  }
}

History::~History() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void History::SampleNow() {
  const MutexLock lock(mutex_);
  const TimeNs now = clock_->Now();
  const HistorySample sample = read_();
  curves_.recent.Add(now, sample);
  curves_.hour.Add(now, sample);
}

History::Curves History::curves() const {
  const MutexLock lock(mutex_);
  return curves_;
}

void History::Run(std::chrono::nanoseconds period) {
  bool is_over = false;
  while (!is_over) {
    {
      RelockableMutexLock lock(mutex_);
      is_over = stop_.wait_for(mutex_, period, stopping_);
    }
    if (!is_over) SampleNow();
  }
}

}  // namespace gemmd
