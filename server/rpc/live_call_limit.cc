#include "server/rpc/live_call_limit.h"

#include <utility>

namespace gemmd {
namespace {

// Counting by connection takes a tenth of a core at most, however many connections there are.
constexpr TimeNs kShareOfTime = 10;

}  // namespace

LiveCallLimit::LiveCallLimit(const Limits& limits, std::unique_ptr<LiveCalls> calls,
                             const Clock* clock, std::chrono::milliseconds period,
                             CloseConnection close_connection)
    : limits_(limits),
      calls_(std::move(calls)),
      clock_(clock),
      close_connection_(std::move(close_connection)) {
  if (period.count() > 0) watcher_ = std::thread([this, period] { Watch(period); });
}

LiveCallLimit::~LiveCallLimit() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void LiveCallLimit::Look() {
  const std::uint64_t all = calls_->Count();
  if (all <= limits_.per_connection) return;
  const TimeNs begin = clock_->Now();
  if (begin < next_count_) return;
  const std::size_t most =
      all > limits_.all ? limits_.per_connection_if_full : limits_.per_connection;
  for (const LiveCalls::OfConnection& each : calls_->ByConnection()) {
    if (each.calls > most) close_connection_(each.peer, "its client opens and resets calls");
  }
  const TimeNs end = clock_->Now();
  next_count_ = end + kShareOfTime * (end - begin);
}

void LiveCallLimit::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  while (!stop_.wait_for(mutex_, period, stopping_)) {
    lock.unlock();
    Look();
    lock.lock();
  }
}

}  // namespace gemmd
