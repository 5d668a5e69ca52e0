// Takes connections from listening sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/net/connection_table.h"
#include "server/net/forwarded_peers.h"

namespace gemmd {

// A thread of its own accepts connections and hands over those that the table has room for; others
// are closed at once, and so are those whose clients do not read. gRPC 1.51 would accept by itself,
// but without limits, and would stop for good once the process had no descriptor left for a
// connection (CVE-2023-4785). This one keeps a spare descriptor: it takes such a connection with it
// and closes it.
//
// With `forwarded`, a connection from one of its proxies begins with a header of the PROXY
// protocol, which is read here: the client that it names is the peer from then on. One whose header
// is wrong, or does not come within kHeaderTime, is closed.
class Acceptor {
 public:
  // Returns OK if the peer may connect now, as PeerOf() names it; else an error that says why not.
  using MayConnect = std::function<absl::Status(const std::string& peer)>;
  // The time that a proxy has for its header.
  static constexpr TimeNs kHeaderTime = 5'000'000'000;
  // Connections that wait for their header; one more closes the one that has waited longest.
  static constexpr std::size_t kMostArriving = 256;

  // Takes over the descriptor of a connection, which is non-blocking.
  using HandOver = std::function<void(int fd)>;

  // The sockets, the table and the clock outlive the acceptor. `forwarded`: null where no
  // connection has such a header.
  Acceptor(std::vector<int> sockets, ConnectionTable* table, const Clock* clock,
           MayConnect may_connect, HandOver hand_over, ForwardedPeers* forwarded = nullptr);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  // Nothing is handed over any more after it.
  ~Acceptor();

 private:
  enum class Outcome : std::uint8_t { kTaken, kNoneLeft, kNoMemory };

  // A proxy's connection, of whose header so much has come.
  struct Arriving {
    int fd;
    TimeNs until;
    std::string header;
  };

  void Run();
  Outcome TakeOne(int socket);
  void Admit(int fd, const std::string& peer, const std::string& client);
  void Await(int fd);
  // Reads on. Returns whether the connection is arriving still; else it was admitted or closed.
  bool ReadHeader(Arriving* arriving);
  void LookAtArriving();
  Outcome RefuseWithSpare(int socket);
  void CloseStalled();
  void LogRefusal(absl::string_view why);

  const std::vector<int> sockets_;
  ConnectionTable* const table_;
  const Clock* const clock_;
  const MayConnect may_connect_;
  const HandOver hand_over_;
  ForwardedPeers* const forwarded_;
  int stop_ = -1;                   // an eventfd
  int spare_ = -1;                  // -1: none could be had again yet
  std::vector<Arriving> arriving_;  // the oldest comes first
  std::uint64_t refused_ = 0;
  TimeNs next_look_ = 0;
  std::thread thread_;
};

}  // namespace gemmd
