// Ends calls whose clients keep the server waiting.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/net/connection_table.h"
#include "server/net/partial_messages.h"
#include "server/net/reading_progress.h"
#include "server/observe/progress.h"
#include "server/rpc/calls/slow_calls.h"

namespace gemmd {

// A call that something is expected of by a certain time, which changes as the call goes on, and
// that says what it reads.
class WatchedCall {
 protected:
  WatchedCall() = default;
  ~WatchedCall() = default;
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

  // Safe on any thread.
  void SetDue(TimeNs due) { due_ = due; }
  TimeNs due() const { return due_; }

  // The following are for a call that was added to the watch and not removed.

  // A message has come. Safe on any thread.
  void CountMessage(std::uint64_t bytes) {
    connection_->explained += PartialMessages::OfMessage(bytes);
    connection_->whole += bytes;
  }
  // Says whether a message may be under way: so it is at first.
  void SetReading(bool is_reading) { is_reading_ = is_reading; }
  // The server does not read on until something else has happened. One thread at a time calls it.
  void SetHeldBack(bool is_held_back) {
    if (std::exchange(is_held_back_, is_held_back) == is_held_back) return;
    connection_->held_back += is_held_back ? 1 : -1;
  }
  // Returns whether the connection brings a message that is not whole, and no slower than it must.
  // For OnLate() alone.
  bool IsMessageComing(TimeNs now) const { return connection_->partial.IsComing(now); }
  // Its client must send and read so fast: as fast as clients had to when the call came.
  const ProgressLimit& progress_limit() const { return progress_limit_; }
  // Returns whether the connection's bytes move so fast, as far as that is known: nobody counts
  // those of local sockets. For OnLate() alone.
  bool IsMoving() const {
    const MovingRate& rate = connection_->rate;
    return !rate.is_known() ||
           rate.per_second() >= static_cast<double>(progress_limit_.bytes_per_second);
  }
  // The bytes of requests' memory that wait for this call's client alone, of what has not moved
  // since `before`: for payload that was announced, or for an answer's being read. The watch calls
  // this and Recall(), as it does OnLate().
  virtual std::uint64_t IdleBytes(TimeNs before) {
    static_cast<void>(before);
    return 0;
  }
  // Others need that memory: ends what waits for its client since before that.
  virtual void Recall(TimeNs before) { static_cast<void>(before); }
  // Called once that time has passed; returns the next one, which counts unless another was set
  // meanwhile. That may have happened just before, too: due() says so to a call that sets it under
  // a lock of its own. The watch's thread calls it, under a lock that Remove() takes: it may end
  // the call, not block.
  virtual TimeNs OnLate(TimeNs now) = 0;

 private:
  friend class CallWatch;
  std::atomic<TimeNs> due_{kNoDeadline};
  struct Connection {
    std::string endpoint;  // its key
    std::string peer;      // as gRPC names it
    std::string address;
    WatchedCall* first = nullptr;  // null where it has none left
    PartialMessages partial;
    MovingRate rate;
    PartialMessages::Events events;                   // since the last look, as far as it was taken
    std::uint64_t most = PartialMessages::kAnyBytes;  // see Events
    std::atomic<std::uint64_t> explained{0};          // bytes, and not taken yet
    std::atomic<std::uint64_t> whole{0};              // bytes of messages, as Events has it
    std::atomic<int> held_back{0};                    // calls
  };

  ProgressLimit progress_limit_;
  std::atomic<bool> is_reading_{true};
  bool is_held_back_ = false;
  // Guarded by the lock of the connection's shard.
  WatchedCall* previous_ = nullptr;
  WatchedCall* next_ = nullptr;
  Connection* connection_ = nullptr;
  std::uint64_t partial_before_ = 0;  // of the connection's messages when the call came
};

// Every call that is watched, by connection. Thread-safe. Adding and removing one costs four short
// locks, because each call of the server pays that.
//
// An address that has too many calls opens no other connection, because calls live on when theirs
// is closed. LiveCallLimit closes connections.
class CallWatch {
 public:
  struct Limits {
    ProgressLimit progress;                 // of each call, and of messages that are not whole
    std::size_t calls = 65536;              // alive, of all connections
    std::size_t calls_per_address = 32768;  // alive, of one address, but for proxies'
  };
  struct Options {
    Limits limits;                           // at first
    std::uint64_t message_bytes = 64 << 20;  // the largest message
    SlowCalls::Limits slow;
    PartialLimits partial;
    std::uint64_t header_bytes = 16384;  // of a call, as HeaderBytesOf() counts
    std::set<std::string> proxies;       // addresses that many clients share
    // Returns whether somebody waits for memory that requests hold; null: nobody ever does.
    std::function<bool()> memory_is_wanted;
  };
  // Closes a connection by gRPC's name of its peer, and says why in the log.
  using CloseConnection = std::function<void(const std::string& peer, absl::string_view why,
                                             ConnectionTable::Reopening reopening)>;
  // ConnectionTable::ReadTraffic().
  using ReadTraffic = std::function<ConnectionTable::Traffic()>;

  // Looks for a rush every `period`, and more often where one begins, and at all calls every 100
  // ms; zero: only when told. The clock outlives the watch.
  CallWatch(const Options& options, const Clock* clock, std::chrono::milliseconds period,
            CloseConnection close_connection, ReadTraffic read_traffic);
  // REQUIRES: no call is left in it.
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // Other limits from here on. It ends nothing: where there are more calls than may be, others are
  // refused until enough have ended.
  void SetLimits(const Limits& limits);

  // `peer` is gRPC's name of the connection's other end. RESOURCE_EXHAUSTED, with a time to retry:
  // one call more than its address may have. If there are too many in all, that is an equal part
  // for each address that has some, so that an address with few calls is served. The call is to end
  // at once; it was added all the same. INVALID_ARGUMENT, and its connection is closed: it has more
  // `header_bytes` than a client sends that has seen the server's settings.
  absl::Status Add(WatchedCall* call, const std::string& peer, std::uint64_t header_bytes);
  // After it the call is not looked at any more. REQUIRES: it was added.
  void Remove(WatchedCall* call);

  // Returns OK if the address, as AddressOf() has it, may have another call; else the same error.
  absl::Status MayConnect(const std::string& address);

  // Both are called by one thread at a time.
  //
  // While memory is wanted each look takes back what one call has of it, if that waits for its
  // client: of the address that has most so, the call that has most. It is spared as long as what
  // its connection has would be gone in a minute at the rate at which that moves, and for the first
  // seconds.
  void Look();
  // Closes connections that fill gRPC's memory with messages that are not whole, before it is full.
  // Returns whether there are so many that it is to be called again soon.
  bool LookForRush();

  const Options& options() const { return options_; }
  const Clock& clock() const { return *clock_; }
  SlowCalls* slow_calls() { return &slow_calls_; }
  // Calls alive: of all together, and of the addresses that have most, at most so many.
  std::vector<Holding> Read(std::size_t most);
  const CloseConnection& close_connection() const { return close_connection_; }

 private:
  struct Shard {
    AdaptiveMutex mutex;
    // By endpoint.
    std::unordered_map<std::string, WatchedCall::Connection> connections ABSL_GUARDED_BY(mutex);

    WatchedCall::Connection* Find(const std::string& endpoint, const std::string& peer)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  };

  void CloseConnectionOf(const std::string& peer, absl::string_view why) const {
    close_connection_(peer, why, ConnectionTable::Reopening::kLater);
  }
  Shard& ShardOf(const std::string& endpoint);
  bool IsProxy(const std::string& address) const;
  // Checks that the address may have so many calls.
  absl::Status CheckLocked(const std::string& address, std::size_t calls) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(addresses_mutex_);
  void Uncount(const std::string& address);
  Limits ReadLimits();
  // Closes connections that keep too much of messages that are not whole, or do not go on with
  // them.
  void LookAtMessages(const ProgressLimit& progress);
  // Returns whether a message may be under way to one of its calls.
  static bool IsReading(const WatchedCall::Connection& connection);
  void RecallMemory();
  // Makes an entry for each connection that the system knows of: one without calls may bring
  // headers.
  ConnectionTable::Traffic FindConnections();
  void Watch(std::chrono::milliseconds period);

  const Options options_;
  const Clock* const clock_;
  const CloseConnection close_connection_;
  const ReadTraffic read_traffic_;
  SlowCalls slow_calls_;
  std::array<Shard, 16> shards_;
  std::atomic<std::size_t> calls_{0};
  AdaptiveMutex addresses_mutex_;
  Limits limits_ ABSL_GUARDED_BY(addresses_mutex_);
  // Their calls; none is zero.
  std::unordered_map<std::string, std::size_t> addresses_ ABSL_GUARDED_BY(addresses_mutex_);
  // Only the thread that looks uses these three:
  TimeNs next_look_ = 0;       // at messages
  TimeNs next_rush_look_ = 0;  // for a rush of them
  bool has_rush_ = false;      // what that look found
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
