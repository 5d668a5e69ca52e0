#include "server/rpc/calls/call_watch.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/peer.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

// Between looks at all calls.
constexpr TimeNs kCallPeriod = 100'000'000;

absl::Status Refusal(std::size_t count, const std::string& whose, std::size_t limit) {
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          count, " calls", whose, " are in progress, and the limit is ", limit, " (limits.calls)")),
      WaitsFor::kCalls);
}

}  // namespace

CallWatch::CallWatch(const Options& options, const Clock* clock, std::chrono::milliseconds period,
                     CloseConnection close_connection, ReadTraffic read_traffic)
    : options_(options),
      clock_(clock),
      close_connection_(std::move(close_connection)),
      read_traffic_(std::move(read_traffic)),
      slow_calls_(options.slow),
      limits_(options.limits) {
  if (period.count() > 0) watcher_ = std::thread([this, period] { Watch(period); });
}

CallWatch::~CallWatch() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

CallWatch::Shard& CallWatch::ShardOf(const std::string& endpoint) {
  return shards_[std::hash<std::string>()(endpoint) % shards_.size()];
}

// Makes it if there is none.
WatchedCall::Connection* CallWatch::Shard::Find(const std::string& endpoint,
                                                const std::string& peer) {
  const auto [found, is_new] = connections.try_emplace(endpoint);
  WatchedCall::Connection& connection = found->second;
  if (is_new) {
    connection.endpoint = endpoint;
    connection.peer = peer;
    connection.address = AddressOf(peer);
  }
  return &connection;
}

absl::Status CallWatch::Add(WatchedCall* call, const std::string& peer,
                            std::uint64_t header_bytes) {
  ++calls_;
  absl::Status status;
  {
    const std::string address = AddressOf(peer);
    const MutexLock lock(addresses_mutex_);
    status = CheckLocked(address, ++addresses_[address]);
    call->progress_limit_ = limits_.progress;
  }
  const std::string endpoint = EndpointOf(peer);
  {
    Shard& shard = ShardOf(endpoint);
    const MutexLock lock(shard.mutex);
    WatchedCall::Connection& connection = *shard.Find(endpoint, peer);
    connection.explained += PartialMessages::OfCall(header_bytes);
    call->partial_before_ = connection.partial.bytes();
    call->connection_ = &connection;
    call->next_ = connection.first;
    if (connection.first != nullptr) connection.first->previous_ = call;
    connection.first = call;
  }
  if (header_bytes <= options_.header_bytes) return status;
  CloseConnectionOf(peer, "a call has more headers than the server's settings allow");
  return absl::InvalidArgumentError(
      absl::StrCat("the call's headers have some ", header_bytes, " bytes, and the limit is 8192"));
}

void CallWatch::Remove(WatchedCall* call) {
  --calls_;
  WatchedCall::Connection* const connection = call->connection_;
  Uncount(connection->address);
  Shard& shard = ShardOf(connection->endpoint);
  const MutexLock lock(shard.mutex);
  if (call->next_ != nullptr) call->next_->previous_ = call->previous_;
  (call->previous_ != nullptr ? call->previous_->next_ : connection->first) = call->next_;
  if (call->is_held_back_) --connection->held_back;
  if (call->is_reading_) connection->most = std::min(connection->most, call->partial_before_);
  // Where no other was there, it took along nothing of others.
  connection->events.is_reading = connection->events.is_reading && IsReading(*connection);
}

bool CallWatch::IsProxy(const std::string& address) const {
  return options_.proxies.count(address) != 0;
}

absl::Status CallWatch::MayConnect(const std::string& address) {
  const MutexLock lock(addresses_mutex_);
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? absl::OkStatus() : CheckLocked(address, found->second + 1);
}

absl::Status CallWatch::CheckLocked(const std::string& address, std::size_t calls) const {
  const bool is_over = calls_ > limits_.calls;
  if (IsProxy(address)) {
    return is_over ? Refusal(limits_.calls, "", limits_.calls) : absl::OkStatus();
  }
  const std::size_t most = is_over ? limits_.calls / addresses_.size() : limits_.calls_per_address;
  if (calls <= std::max<std::size_t>(1, most)) return absl::OkStatus();
  return Refusal(calls - 1, " of address " + address, most);
}

std::vector<Holding> CallWatch::Read(std::size_t most) {
  constexpr char kCalls[] = "calls";
  std::vector<Holding> holdings;
  const MutexLock lock(addresses_mutex_);
  holdings.reserve(addresses_.size() + 1);
  for (const auto& [address, calls] : addresses_) {
    holdings.push_back({"", kCalls, Party::kAddress, address, calls,
                        IsProxy(address) ? kUnlimited : limits_.calls_per_address});
  }
  most = std::min(most, holdings.size());
  std::partial_sort(holdings.begin(), holdings.begin() + static_cast<std::ptrdiff_t>(most),
                    holdings.end(), [](const Holding& x, const Holding& y) {
                      return x.held != y.held ? x.held > y.held : x.name < y.name;
                    });
  holdings.resize(most);
  holdings.insert(holdings.begin(), {"", kCalls, Party::kAll, "", calls_, limits_.calls});
  return holdings;
}

void CallWatch::SetLimits(const Limits& limits) {
  const MutexLock lock(addresses_mutex_);
  limits_ = limits;
}

CallWatch::Limits CallWatch::ReadLimits() {
  const MutexLock lock(addresses_mutex_);
  return limits_;
}

void CallWatch::Uncount(const std::string& address) {
  const MutexLock lock(addresses_mutex_);
  if (const auto found = addresses_.find(address); --found->second == 0) addresses_.erase(found);
}

void CallWatch::Look() {
  constexpr TimeNs kMostPeriod = 500'000'000;
  if (clock_->Now() >= next_look_) {
    const ProgressLimit progress = ReadLimits().progress;
    next_look_ = clock_->Now() + std::min(kMostPeriod, progress.window / 4);
    LookAtMessages(progress);
  }
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    const TimeNs now = clock_->Now();
    for (const auto& [endpoint, connection] : shard.connections) {
      for (WatchedCall* call = connection.first; call != nullptr; call = call->next_) {
        TimeNs due = call->due_;
        if (now > due) call->due_.compare_exchange_strong(due, call->OnLate(now));
      }
    }
  }
  if (options_.memory_is_wanted != nullptr && options_.memory_is_wanted()) RecallMemory();
}

void CallWatch::RecallMemory() {
  constexpr TimeNs kGrace = 3'000'000'000;
  constexpr double kSecondsToMove = 60;
  struct Idle {
    std::uint64_t all = 0;
    std::uint64_t most = 0;  // of one call
    WatchedCall* call = nullptr;
    std::string endpoint;
  };
  const TimeNs before = clock_->Now() - kGrace;
  std::map<std::string, Idle> addresses;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (const auto& [endpoint, connection] : shard.connections) {
      Idle idle{0, 0, nullptr, endpoint};
      for (WatchedCall* call = connection.first; call != nullptr; call = call->next_) {
        const std::uint64_t bytes = call->IdleBytes(before);
        idle.all += bytes;
        if (bytes <= idle.most) continue;
        idle.most = bytes;
        idle.call = call;
      }
      const double moves = connection.rate.per_second() * kSecondsToMove;
      if (idle.call == nullptr || moves >= static_cast<double>(idle.all)) continue;
      Idle& whole = addresses[IsProxy(connection.address) ? endpoint : connection.address];
      idle.all += whole.all;
      if (idle.most > whole.most) whole = idle;
      whole.all = idle.all;
    }
  }
  const auto most =
      std::max_element(addresses.begin(), addresses.end(),
                       [](const auto& x, const auto& y) { return x.second.all < y.second.all; });
  if (most == addresses.end()) return;
  const Idle& idle = most->second;
  Shard& shard = ShardOf(idle.endpoint);
  const MutexLock lock(shard.mutex);
  // It may be gone by now.
  const WatchedCall::Connection& connection = shard.connections.at(idle.endpoint);
  for (WatchedCall* call = connection.first; call != nullptr; call = call->next_) {
    if (call == idle.call) return call->Recall(before);
  }
}

void CallWatch::LookAtMessages(const ProgressLimit& progress) {
  // Explanations are read before the bytes that they explain: else some would come too early, and
  // be forgotten.
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (auto& [endpoint, connection] : shard.connections) {
      connection.events.explained += connection.explained.exchange(0);
      connection.events.whole += connection.whole.exchange(0);
      connection.events.most = std::exchange(connection.most, PartialMessages::kAnyBytes);
    }
  }
  const ConnectionTable::Traffic traffic = FindConnections();
  const TimeNs now = clock_->Now();
  std::vector<std::string> stalled;
  std::vector<PartialHolder> holders;
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    for (auto each = shard.connections.begin(); each != shard.connections.end();) {
      auto& [endpoint, connection] = *each;
      const auto found = traffic.find(endpoint);
      if (found == traffic.end()) {  // closed, or without an endpoint of its own
        each = connection.first == nullptr ? shard.connections.erase(each) : std::next(each);
        continue;
      }
      connection.rate.Look(found->second.received + found->second.sent, now);
      connection.events.has_calls = connection.first != nullptr;
      connection.events.is_reading = connection.events.is_reading && IsReading(connection);
      connection.events.is_held_back = connection.held_back > 0;
      connection.partial.Look(found->second, connection.events, progress, now);
      connection.events = PartialMessages::Events();
      if (connection.partial.IsStalled(now)) {
        stalled.push_back(connection.peer);
      } else if (connection.partial.lasting() != 0) {
        holders.push_back({connection.peer, connection.address, connection.partial.lasting(), 0});
      }
      ++each;
    }
  }
  for (const std::string& peer : stalled) {
    CloseConnectionOf(peer, "its client does not go on with a message or a call's headers");
  }
  for (const std::string& peer : HoldersOver(options_.partial, std::move(holders))) {
    CloseConnectionOf(peer,
                      "its address keeps too much of messages and headers that are not whole");
  }
}

ConnectionTable::Traffic CallWatch::FindConnections() {
  ConnectionTable::Traffic traffic = read_traffic_();
  for (const auto& [endpoint, each] : traffic) {
    Shard& shard = ShardOf(endpoint);
    const MutexLock lock(shard.mutex);
    shard.Find(endpoint,
               NamedPeer(absl::StrCat(endpoint.front() == '[' ? "ipv6:" : "ipv4:", endpoint)));
  }
  return traffic;
}

bool CallWatch::IsReading(const WatchedCall::Connection& connection) {
  for (const WatchedCall* call = connection.first; call != nullptr; call = call->next_) {
    if (call->is_reading_) return true;
  }
  return false;
}

bool CallWatch::LookForRush() {
  // A connection takes 3 to 4 us (docs/security.md): a sixth of a core, then, however many there
  // are. The clock says less of it, because a busy machine stops this thread.
  constexpr TimeNs kPauseForEach = 20'000;
  constexpr std::uint64_t kPartOfRush = 4;
  const TimeNs begin = clock_->Now();
  if (begin < next_rush_look_) return has_rush_;
  std::vector<PartialHolder> holders;
  std::uint64_t all = 0;
  const ConnectionTable::Traffic connections = FindConnections();
  for (const auto& [endpoint, traffic] : connections) {
    Shard& shard = ShardOf(endpoint);
    const MutexLock lock(shard.mutex);
    const WatchedCall::Connection& connection = shard.connections.at(endpoint);
    PartialMessages::Events events = connection.events;
    // It is read after the bytes: so the estimate may be too low for a moment, and not too high.
    events.explained += connection.explained;
    events.whole += connection.whole;
    events.most = std::min(events.most, connection.most);
    events.has_calls = connection.first != nullptr;
    events.is_reading = events.is_reading && IsReading(connection);
    const PartialMessages::Present present = connection.partial.Now(traffic, events);
    if (present.bytes + present.hidden == 0) continue;
    all += present.bytes + present.hidden;
    holders.push_back({connection.peer, connection.address, present.bytes, present.hidden});
  }
  for (const std::string& peer : HoldersInTheWay(options_.partial, std::move(holders))) {
    CloseConnectionOf(peer, "messages that are not whole would fill the memory for them");
  }
  next_rush_look_ = begin + kPauseForEach * static_cast<TimeNs>(connections.size());
  has_rush_ = all > options_.partial.at_once / kPartOfRush;
  return has_rush_;
}

void CallWatch::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  // Loopback brings two megabytes a millisecond.
  constexpr int kHaste = 5;
  TimeNs next_look = 0;
  std::chrono::microseconds wait = period;
  while (!stop_.wait_for(mutex_, wait, stopping_)) {
    lock.unlock();
    wait = period;
    if (LookForRush()) wait /= kHaste;
    if (clock_->Now() >= next_look) {
      Look();
      next_look = clock_->Now() + kCallPeriod;
    }
    lock.lock();
  }
}

}  // namespace gemmd
