#include "server/rpc/call_watch.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/peer.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

constexpr std::int64_t kRetryMs = 100;

absl::Status Refusal(std::size_t count, const std::string& whose, std::size_t limit) {
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          count, " calls", whose, " are in progress, and the limit is ", limit, " (limits.calls)")),
      kRetryMs);
}

}  // namespace

CallWatch::CallWatch(const Options& options, const Clock* clock, std::chrono::milliseconds period,
                     CloseConnection close_connection)
    : options_(options),
      clock_(clock),
      close_connection_(std::move(close_connection)),
      slow_calls_(options.slow) {
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

CallWatch::Shard& CallWatch::ShardOf(const std::string& peer) {
  return shards_[std::hash<std::string>()(peer) % shards_.size()];
}

absl::Status CallWatch::Add(WatchedCall* call, const std::string& peer) {
  ++calls_;
  const std::string address = AddressOf(peer);
  absl::Status status = Count(address);
  Shard& shard = ShardOf(peer);
  const MutexLock lock(shard.mutex);
  const auto [found, is_new] = shard.connections.try_emplace(peer);
  WatchedCall::Connection& connection = found->second;
  if (is_new) {
    connection.name = &found->first;
    connection.address = address;
  }
  call->connection_ = &connection;
  call->next_ = connection.first;
  if (connection.first != nullptr) connection.first->previous_ = call;
  connection.first = call;
  return status;
}

void CallWatch::Remove(WatchedCall* call) {
  --calls_;
  WatchedCall::Connection* const connection = call->connection_;
  Uncount(connection->address);
  Shard& shard = ShardOf(*connection->name);
  const MutexLock lock(shard.mutex);
  if (call->next_ != nullptr) call->next_->previous_ = call->previous_;
  (call->previous_ != nullptr ? call->previous_->next_ : connection->first) = call->next_;
  if (connection->first == nullptr)
    shard.connections.erase(shard.connections.find(*connection->name));
}

absl::Status CallWatch::MayConnect(const std::string& address) {
  const MutexLock lock(addresses_mutex_);
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? absl::OkStatus() : CheckLocked(address, found->second + 1);
}

absl::Status CallWatch::Count(const std::string& address) {
  const MutexLock lock(addresses_mutex_);
  return CheckLocked(address, ++addresses_[address]);
}

absl::Status CallWatch::CheckLocked(const std::string& address, std::size_t calls) const {
  const bool is_over = calls_ > options_.calls;
  if (options_.proxies.count(address) != 0) {
    return is_over ? Refusal(options_.calls, "", options_.calls) : absl::OkStatus();
  }
  const std::size_t most =
      is_over ? options_.calls / addresses_.size() : options_.calls_per_address;
  if (calls <= std::max<std::size_t>(1, most)) return absl::OkStatus();
  return Refusal(calls - 1, " of address " + address, most);
}

void CallWatch::Uncount(const std::string& address) {
  const MutexLock lock(addresses_mutex_);
  if (const auto found = addresses_.find(address); --found->second == 0) addresses_.erase(found);
}

void CallWatch::Look() {
  for (Shard& shard : shards_) {
    const MutexLock lock(shard.mutex);
    const TimeNs now = clock_->Now();
    for (const auto& [peer, connection] : shard.connections) {
      for (WatchedCall* call = connection.first; call != nullptr; call = call->next_) {
        TimeNs due = call->due_;
        if (now > due) call->due_.compare_exchange_strong(due, call->OnLate(now));
      }
    }
  }
}

void CallWatch::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  while (!stop_.wait_for(mutex_, period, stopping_)) {
    lock.unlock();
    Look();
    lock.lock();
  }
}

}  // namespace gemmd
