// Closes connections that bring calls faster than the server can be told of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/rpc/calls/call_watch.h"
#include "server/rpc/calls/live_calls.h"

namespace gemmd {

// About how many calls of a connection were answered in a window, at the rate of late. A value,
// which learns from counts of all that were answered so far.
class RecentAnswers {
 public:
  static constexpr TimeNs kWindow = 250'000'000;

  // Returns how many were answered since the count before. REQUIRES: `now` is no earlier than
  // before.
  std::uint64_t Counted(std::uint64_t answered, TimeNs now);
  std::uint64_t number() const { return static_cast<std::uint64_t>(number_); }

 private:
  std::uint64_t answered_ = 0;
  TimeNs counted_ = -kWindow;
  bool is_rate_ = false;  // else number_ is of all that were answered while nobody counted
  double number_ = 0;
};

// The answers of an address that have not paid for reset calls yet. They are forgotten: half of
// them in a second. A value.
class AnswerCredit {
 public:
  static constexpr double kMost = 8192;

  void Add(std::uint64_t answers, TimeNs now);
  // Returns whether it was enough, and was taken.
  bool Pay(std::uint64_t calls, TimeNs now);
  bool is_empty(TimeNs now) const { return NumberAt(now) < 1; }

 private:
  double NumberAt(TimeNs now) const;

  double number_ = 0;
  TimeNs at_ = 0;
};

// A connection has limits.streams_per_connection calls in progress at most, says gRPC. Calls that
// were reset are none for it, but they live until the server was told of them. While a connection
// has bytes to read, the thread that reads them tells of nothing: a client that opened and reset
// calls made 60,000 in three seconds, of which the server heard of none, and of no other client's
// either (CVE-2023-44487). So an address has a bound of such calls, whatever the number of its
// connections, and those that have most of them are closed.
//
// A client that asks for more than the server can do, and gives up when deadlines pass, resets
// calls too; but it has answers. So an address may have as many more as it had answers in a window:
// to hold others up for longer than that, it would have to be served. If it passes that bound,
// answers of the last seconds pay for the calls of what is closed: then it may connect again at
// once, and those calls no longer count. Else they would close its new connections too, and it
// would have no answer any more.
class LiveCallLimit {
 public:
  struct Limits {
    std::size_t all = 65536;                  // alive
    std::size_t in_progress = 24;             // of a connection; all that it may have above `all`
    std::size_t reset = 384;                  // of an address, and as many as were answered
    std::set<std::string> shared = {"unix"};  // addresses of many clients: by connection there
  };
  using CloseConnection = CallWatch::CloseConnection;

  // Looks every `period`; zero: only when told. The clock outlives the limit.
  LiveCallLimit(const Limits& limits, std::unique_ptr<LiveCalls> calls, const Clock* clock,
                std::chrono::milliseconds period, CloseConnection close_connection);
  ~LiveCallLimit();
  LiveCallLimit(const LiveCallLimit&) = delete;
  LiveCallLimit& operator=(const LiveCallLimit&) = delete;

  // Another number of calls that may be alive in all. Where more are, it closes nothing: they may
  // be as many as at the last look until there are so few.
  void SetAll(std::size_t all) { all_ = all; }

  // Called by one thread at a time.
  void Look();

 private:
  // A connection's part of what its address has.
  struct Part {
    std::int64_t id;
    const std::string* peer;
    std::uint64_t reset;
    bool is_served;
    std::uint64_t answers;  // in a window
  };
  using Parts = std::vector<Part>;

  void Watch(std::chrono::milliseconds period);
  // Returns how many calls may be alive, where so many are.
  std::uint64_t AllowedOf(std::uint64_t alive);
  // The address of a connection, or its own name where that is shared.
  std::string KeyOf(const LiveCalls::OfConnection& connection) const;
  // Counts the answers of the connections, and forgets those that are not among them.
  void CountAnswers(const std::vector<LiveCalls::OfConnection>& connections, TimeNs now);
  // The parts of each address, but for those whose calls were paid for.
  absl::flat_hash_map<std::string, Parts> ByAddress(
      const std::vector<LiveCalls::OfConnection>& connections) const;
  // Where they have more than they may, closes those that have most, until the others have no more,
  // but none with less than half of the most: calls of others live on where the thread that would
  // end them reads from that one. Answers pay as far as they reach. Where nothing was answered of
  // late, also closes those that were never served, because most of their calls may have to be
  // read.
  void CloseOver(const std::string& address, Parts parts, TimeNs now);

  const Limits limits_;  // but for `all`
  std::atomic<std::size_t> all_;
  const std::unique_ptr<LiveCalls> calls_;
  const Clock* const clock_;
  const CloseConnection close_connection_;
  std::uint64_t allowed_ = 0;  // at the last look
  TimeNs next_count_ = 0;
  absl::flat_hash_map<std::int64_t, RecentAnswers> answers_;  // by the connection's id
  absl::flat_hash_map<std::string, AnswerCredit> credits_;    // by address; few are empty
  absl::flat_hash_set<std::int64_t> paid_;                    // connections that were closed
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
