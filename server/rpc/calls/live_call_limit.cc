#include "server/rpc/calls/live_call_limit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/peer.h"

namespace gemmd {
namespace {

// Counting by connection takes a tenth of a core at most, however many connections there are.
constexpr TimeNs kShareOfTime = 10;
constexpr char kWhy[] = "its client opens and resets calls";
constexpr auto kLater = ConnectionTable::Reopening::kLater;

}  // namespace

// Where nobody counted for a window, all answers since count once; the rate is known at the next
// count. From then on it is a mean whose weights fall to 1/e in a window.
std::uint64_t RecentAnswers::Counted(std::uint64_t answered, TimeNs now) {
  const TimeNs passed = now - counted_;
  const std::uint64_t since = answered - std::min(answered, answered_);
  const auto more = static_cast<double>(since);
  if (passed >= kWindow) {
    number_ = more;
    is_rate_ = false;
  } else if (passed > 0) {
    const double part = static_cast<double>(passed) / kWindow;
    const double at_this_rate = more / part;
    number_ = is_rate_ ? number_ + part * (at_this_rate - number_) : at_this_rate;
    is_rate_ = true;
  } else {
    return 0;
  }
  answered_ = answered;
  counted_ = now;
  return since;
}

double AnswerCredit::NumberAt(TimeNs now) const {
  constexpr double kHalfLife = 1e9;
  return number_ * std::exp2(static_cast<double>(at_ - now) / kHalfLife);
}

void AnswerCredit::Add(std::uint64_t answers, TimeNs now) {
  number_ = std::min(kMost, NumberAt(now) + static_cast<double>(answers));
  at_ = now;
}

bool AnswerCredit::Pay(std::uint64_t calls, TimeNs now) {
  number_ = NumberAt(now);
  at_ = now;
  if (static_cast<double>(calls) > number_) return false;
  number_ -= static_cast<double>(calls);
  return true;
}

LiveCallLimit::LiveCallLimit(const Limits& limits, std::unique_ptr<LiveCalls> calls,
                             const Clock* clock, std::chrono::milliseconds period,
                             CloseConnection close_connection)
    : limits_(limits),
      all_(limits.all),
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

std::uint64_t LiveCallLimit::AllowedOf(std::uint64_t alive) {
  allowed_ = std::max<std::uint64_t>(all_, std::min(allowed_, alive));
  return allowed_;
}

void LiveCallLimit::Look() {
  const std::uint64_t all = calls_->Count();
  const std::uint64_t allowed = AllowedOf(all);
  if (all <= limits_.reset) return;
  const TimeNs begin = clock_->Now();
  if (begin < next_count_) return;
  const std::vector<LiveCalls::OfConnection> connections = calls_->ByConnection();
  CountAnswers(connections, begin);
  if (all > allowed) {
    for (const LiveCalls::OfConnection& each : connections) {
      if (each.calls > limits_.in_progress) close_connection_(each.peer, kWhy, kLater);
    }
  } else {
    for (auto& [address, parts] : ByAddress(connections)) {
      CloseOver(address, std::move(parts), begin);
    }
  }
  const TimeNs end = clock_->Now();
  next_count_ = end + kShareOfTime * (end - begin);
}

std::string LiveCallLimit::KeyOf(const LiveCalls::OfConnection& connection) const {
  std::string address = AddressOf(connection.peer);
  if (limits_.shared.count(address) != 0) absl::StrAppend(&address, " ", connection.id);
  return address;
}

absl::flat_hash_map<std::string, LiveCallLimit::Parts> LiveCallLimit::ByAddress(
    const std::vector<LiveCalls::OfConnection>& connections) const {
  absl::flat_hash_map<std::string, Parts> addresses;
  for (const LiveCalls::OfConnection& each : connections) {
    if (paid_.contains(each.id)) continue;
    const std::uint64_t reset =
        each.calls - std::min<std::uint64_t>(each.calls, limits_.in_progress);
    addresses[KeyOf(each)].push_back(
        {each.id, &each.peer, reset, each.is_served, answers_.at(each.id).number()});
  }
  return addresses;
}

// gRPC counts a connection that was closed as long as calls of it live: those have most, and what
// they have leaves less to others, if it was not paid for.
void LiveCallLimit::CloseOver(const std::string& address, Parts parts, TimeNs now) {
  std::uint64_t reset = 0;
  std::uint64_t most = limits_.reset;
  for (const Part& each : parts) {
    reset += each.reset;
    most += each.answers;
  }
  if (reset <= most) return;
  std::sort(parts.begin(), parts.end(),
            [](const Part& x, const Part& y) { return x.reset > y.reset; });
  const std::uint64_t least = parts.front().reset / 2;
  AnswerCredit& credit = credits_[address];
  const bool was_served = !credit.is_empty(now);
  bool is_paid = true;
  for (const Part& each : parts) {
    const bool is_over = reset > most && each.reset >= least;
    if (!is_over && (was_served || each.is_served)) continue;
    is_paid = is_paid && credit.Pay(each.reset, now);
    if (is_paid) paid_.insert(each.id);
    close_connection_(*each.peer, kWhy, is_paid ? ConnectionTable::Reopening::kAtOnce : kLater);
    reset -= each.reset;
  }
}

void LiveCallLimit::CountAnswers(const std::vector<LiveCalls::OfConnection>& connections,
                                 TimeNs now) {
  absl::flat_hash_map<std::int64_t, RecentAnswers> present;
  absl::flat_hash_set<std::int64_t> paid;
  present.reserve(connections.size());
  for (const LiveCalls::OfConnection& each : connections) {
    const auto found = answers_.find(each.id);
    RecentAnswers& answers = present[each.id];
    if (found != answers_.end()) answers = found->second;
    const std::uint64_t more = answers.Counted(each.answered, now);
    if (more != 0) credits_[KeyOf(each)].Add(more, now);
    if (paid_.contains(each.id)) paid.insert(each.id);
  }
  answers_ = std::move(present);
  paid_ = std::move(paid);
  absl::erase_if(credits_, [now](const auto& each) { return each.second.is_empty(now); });
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
