#include "server/rpc/live_call_limit.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/peer.h"

namespace gemmd {
namespace {

// Counting by connection takes a tenth of a core at most, however many connections there are.
constexpr TimeNs kShareOfTime = 10;
constexpr char kWhy[] = "its client opens and resets calls";

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
  if (all <= limits_.reset) return;
  const TimeNs begin = clock_->Now();
  if (begin < next_count_) return;
  const std::vector<LiveCalls::OfConnection> connections = calls_->ByConnection();
  CountAnswers(connections, begin);
  if (all > limits_.all) {
    for (const LiveCalls::OfConnection& each : connections) {
      if (each.calls > limits_.in_progress) close_connection_(each.peer, kWhy);
    }
  } else {
    for (std::vector<Part>& parts : ByAddress(connections)) CloseOver(std::move(parts));
  }
  const TimeNs end = clock_->Now();
  next_count_ = end + kShareOfTime * (end - begin);
}

std::vector<std::vector<LiveCallLimit::Part>> LiveCallLimit::ByAddress(
    const std::vector<LiveCalls::OfConnection>& connections) const {
  absl::flat_hash_map<std::string, std::vector<Part>> addresses;
  for (const LiveCalls::OfConnection& each : connections) {
    const std::uint64_t reset =
        each.calls - std::min<std::uint64_t>(each.calls, limits_.in_progress);
    std::string address = AddressOf(each.peer);
    if (limits_.shared.count(address) != 0) absl::StrAppend(&address, " ", each.id);
    addresses[address].push_back(
        {&each.peer, reset, each.is_served, answers_.at(each.id).number()});
  }
  std::vector<std::vector<Part>> result;
  result.reserve(addresses.size());
  for (auto& [address, parts] : addresses) result.push_back(std::move(parts));
  return result;
}

// gRPC counts a connection that was closed as long as calls of it live: those have most, and what
// they have leaves less to others.
void LiveCallLimit::CloseOver(std::vector<Part> parts) {
  std::uint64_t reset = 0;
  std::uint64_t most = limits_.reset;
  for (const Part& each : parts) {
    reset += each.reset;
    most += each.answers;
  }
  if (reset <= most) return;
  std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) {
    return std::make_tuple(x.is_served, y.reset) < std::make_tuple(y.is_served, x.reset);
  });
  for (const Part& each : parts) {
    if (each.is_served && reset <= most) return;
    close_connection_(*each.peer, kWhy);
    reset -= each.reset;
  }
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
