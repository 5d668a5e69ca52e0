#include "server/rpc/live_call_limit.h"

#include <algorithm>
#include <utility>

namespace gemmd {
namespace {

// Counting by connection takes a tenth of a core at most, however many connections there are.
constexpr TimeNs kShareOfTime = 10;

}  // namespace

// Where nobody counted for a window, all answers since count once; the rate is known at the next
// count. From then on it is a mean whose weights fall to 1/e in a window.
void RecentAnswers::Counted(std::uint64_t answered, TimeNs now) {
  const TimeNs passed = now - counted_;
  const auto more = static_cast<double>(answered - std::min(answered, answered_));
  if (passed >= kWindow) {
    number_ = more;
    is_rate_ = false;
  } else if (passed > 0) {
    const double part = static_cast<double>(passed) / kWindow;
    const double at_this_rate = more / part;
    number_ = is_rate_ ? number_ + part * (at_this_rate - number_) : at_this_rate;
    is_rate_ = true;
  } else {
    return;
  }
  answered_ = answered;
  counted_ = now;
}

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
  const std::vector<LiveCalls::OfConnection> connections = calls_->ByConnection();
  CountAnswers(connections, begin);
  for (const LiveCalls::OfConnection& each : connections) {
    const std::uint64_t most = all > limits_.all
                                   ? limits_.per_connection_if_full
                                   : limits_.per_connection + answers_.at(each.id).number();
    if (each.calls > most) close_connection_(each.peer, "its client opens and resets calls");
  }
  const TimeNs end = clock_->Now();
  next_count_ = end + kShareOfTime * (end - begin);
}

void LiveCallLimit::CountAnswers(const std::vector<LiveCalls::OfConnection>& connections,
                                 TimeNs now) {
  absl::flat_hash_map<std::int64_t, RecentAnswers> present;
  present.reserve(connections.size());
  for (const LiveCalls::OfConnection& each : connections) {
    const auto found = answers_.find(each.id);
    RecentAnswers& answers = present[each.id];
    if (found != answers_.end()) answers = found->second;
    answers.Counted(each.answered, now);
  }
  answers_ = std::move(present);
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
