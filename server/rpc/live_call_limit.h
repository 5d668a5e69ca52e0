// Closes connections that bring calls faster than the server can be told of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "server/observe/clock.h"
#include "server/rpc/live_calls.h"
#include "sync/mutex.h"

namespace gemmd {

// A connection has limits.streams_per_connection calls in progress at most, says gRPC. Calls that
// were reset are none for it, but they live until the server was told of them. While a connection
// has bytes to read, the thread that reads them tells of nothing: a client that opened and reset
// calls made 60,000 in three seconds, of which the server heard of none, and of no other client's
// either (CVE-2023-44487). So a connection is closed that has many times as many calls alive, or
// more than so many where there are too many in all. A client that gives up when deadlines pass may
// have some alive that it reset, but hardly ever so many.
class LiveCallLimit {
 public:
  struct Limits {
    std::size_t all = 65536;
    std::size_t per_connection = 768;
    std::size_t per_connection_if_full = 24;  // where there are more than `all`
  };
  // Closes a connection by gRPC's name of its peer, and says why in the log.
  using CloseConnection = std::function<void(const std::string& peer, absl::string_view why)>;

  // Looks every `period`; zero: only when told. The clock outlives the limit.
  LiveCallLimit(const Limits& limits, std::unique_ptr<LiveCalls> calls, const Clock* clock,
                std::chrono::milliseconds period, CloseConnection close_connection);
  ~LiveCallLimit();
  LiveCallLimit(const LiveCallLimit&) = delete;
  LiveCallLimit& operator=(const LiveCallLimit&) = delete;

  // Called by one thread at a time.
  void Look();

 private:
  void Watch(std::chrono::milliseconds period);

  const Limits limits_;
  const std::unique_ptr<LiveCalls> calls_;
  const Clock* const clock_;
  const CloseConnection close_connection_;
  TimeNs next_count_ = 0;
  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
