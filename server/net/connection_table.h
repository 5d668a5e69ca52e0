// Keeps the table of open connections: whose they are, and how many more may be.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/holdings/ledger.h"
#include "server/holdings/quotas.h"
#include "server/net/forwarded_peers.h"
#include "server/net/partial_messages.h"
#include "server/net/reading_progress.h"
#include "server/observe/progress.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// The peer of a connected socket, by which connections are limited: its IPv4 address; the /64
// network of its IPv6 address, because a host may use all addresses of one; or "unix".
std::string PeerOf(int fd);
std::string PeerOf(const sockaddr_storage& peer);

// The peer's end of a connected socket: "10.0.0.1:4711" or "[2001:db8::1]:4711", which no other
// connection of the server has, or "unix", which all local sockets have.
std::string EndpointOf(int fd);
std::string EndpointOf(const sockaddr_storage& peer);

// The table also ends connections whose clients do not read what waits for them: gRPC keeps what it
// gave to a connection until the system takes it, even of calls that have ended.
//
// gRPC owns connections and does not say when one ends. So each is remembered by its descriptor and
// the inode behind it: a connection is open while the descriptor has that inode.
//
// Thread-safe.
class ConnectionTable {
 public:
  struct Limits {
    std::size_t all = 0;
    std::size_t per_peer = 0;
    std::set<std::string> proxies;  // peers without a limit of their own
    // The time in which a peer may open one connection, after as many at once as it may have; 0:
    // any number. Even one that is closed at once brings calls that are served, and others' calls
    // wait behind them.
    TimeNs interval = 0;
    // The longest time for which a closed connection still counts. Looking costs a system call for
    // each connection, so a full server is looked through no more often.
    TimeNs look_interval = 50'000'000;
  };
  // `reading`: how fast peers must read. `quotas`: of tenants; null: none. Clock and quotas outlive
  // the table.
  ConnectionTable(const Limits& limits, const ProgressLimit& reading, const Clock* clock,
                  Quotas* quotas = nullptr);

  // Other limits from here on. It closes nothing: where more connections are open than may be,
  // others are refused until enough have ended. Peers that have something to read keep the time
  // that they had for that.
  void SetLimits(const Limits& limits, const ProgressLimit& reading);

  // Counts a connection, whose descriptor is open, until it is closed. RESOURCE_EXHAUSTED names the
  // limit that it would pass. `client`: whose connection it is where a proxy forwards it, as
  // EndpointOf() has it; empty: the peer's.
  absl::Status Add(int fd, const std::string& peer, const std::string& client = {});

  // The time until a peer whose connection was closed opens another.
  enum class Reopening : std::uint8_t { kLater, kAtOnce };

  // Shuts down the connection of that endpoint, which its owner then sees broken, and drops what
  // came over it unread. With kLater its peer may open no other for some seconds. Returns whether
  // there was one that was not shut down yet. Local sockets share one endpoint: the one with the
  // most bytes that wait to be read is shut down, or none if few wait.
  bool Close(const std::string& endpoint, Reopening reopening = Reopening::kLater);

  // As Close() with kAtOnce, every connection.
  void CloseAll();

  // A call of the tenant came over the connection of that endpoint, which from now on counts in the
  // tenant's quota of connections until it is closed. Errors as Quotas::Take(), each time
  // that there is no room for it. A connection that is not there any more, and one without an
  // endpoint of its own, counts for nobody.
  absl::Status CountFor(const Tenant& tenant, const std::string& endpoint);

  // Shuts connections down whose peer reads too slowly; gives their endpoints. The caller calls it
  // every look_period().
  std::vector<std::string> CloseStalled();
  TimeNs look_period();

  // The bytes of all open connections so far, by endpoint. Those without an endpoint of their own
  // are not among them.
  using Traffic = absl::flat_hash_map<std::string, ConnectionTraffic>;
  Traffic ReadTraffic();

  // Bytes written to all open connections that their peers have not acknowledged. They are lost
  // where a connection is closed under a peer that still writes to it (its flow control does): the
  // kernel then resets the connection.
  std::uint64_t UnacknowledgedBytes();

  struct Usage {
    std::size_t open = 0;
    std::size_t limit = 0;
    std::uint64_t taken = 0;    // since the start
    std::uint64_t refused = 0;  // by Add(), since the start
  };
  // The present use, but that closed connections may count for some seconds.
  Usage usage();
  // Closed connections may count in it for some seconds.
  const Ledger& ledger() const { return ledger_; }

 private:
  struct Connection {
    Hold place;
    int fd;
    ino_t inode;
    std::string endpoint;
    ReadingProgress reading;
    bool is_shut_down = false;
    SendQueue local_queue;  // of a local socket at the last look
    ForwardedPeers::Entry forwarded;
  };
  struct Peer {
    std::vector<Connection> connections;
    // Its connections are paid for up to this time, as in the generic cell rate algorithm (ITU-T
    // I.371): each connection is an interval.
    TimeNs paid_until = std::numeric_limits<TimeNs>::min();
    // The time at which its last connection was closed, and how long none was to be opened then; 0:
    // none was closed.
    TimeNs closed_at = 0;
    TimeNs penalty = 0;

    // Has it open no connection for some time.
    void Punish(TimeNs now);
  };
  using Peers = std::map<std::string, Peer>;
  // An account whose quota a connection counts in. Few connections have more than one; the latest
  // comes last.
  struct User {
    std::string account;
    Hold hold;
  };
  using Users = std::vector<User>;

  static bool IsOpen(const Connection& connection);
  // The earliest time that counts as paid for.
  TimeNs Earliest(TimeNs now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Hold> TakePlace(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Pace(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets connections that were closed. It asks the system for each, so it does this at most once
  // in a look_interval: connecting to a full server again and again costs it little.
  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SendQueue QueueOf(Connection* connection) const;
  // Shuts down what is behind the descriptor, if it is this one still.
  static bool ShutDown(const Connection& connection);
  absl::Status TryToCount(const Tenant& tenant, const std::string& endpoint);

  const Clock* const clock_;
  Quotas* const quotas_;
  Ledger ledger_;  // of connections
  Mutex mutex_;
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  ProgressLimit reading_ ABSL_GUARDED_BY(mutex_);
  Peers peers_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  TimeNs next_look_ ABSL_GUARDED_BY(mutex_) = 0;
  // A lock of its own, because calls take it. Taken after the other.
  AdaptiveMutex users_mutex_;
  // Keyed by endpoint: those of each connection that is in the table and has an endpoint of its
  // own.
  absl::flat_hash_map<std::string, Users> users_ ABSL_GUARDED_BY(users_mutex_);
};

}  // namespace gemmd
