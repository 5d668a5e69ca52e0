// Sockets that clients connect to.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gemmd {

// Owns sockets that listen, and the file of a unix socket.
class ListeningSockets {
 public:
  // Listens on an address as CheckListenAddress() takes it: HOST:PORT on every address that HOST
  // has, on IPv6 and IPv4 alike where it is 0.0.0.0 or [::]; port 0 takes a free one. A file that a
  // unix socket left behind is replaced unless somebody answers there.
  // UNAVAILABLE names the address and what the system said.
  static absl::StatusOr<ListeningSockets> Listen(const std::string& address);

  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&& other) = delete;
  ListeningSockets(const ListeningSockets&) = delete;
  ~ListeningSockets();

  // Non-blocking. Owned by this.
  const std::vector<int>& sockets() const { return sockets_; }
  // 0 for unix sockets.
  int port() const { return port_; }

 private:
  ListeningSockets() = default;

  absl::Status ListenOnUnix(const std::string& address);
  absl::Status ListenOnHost(const std::string& address);

  std::vector<int> sockets_;
  int port_ = 0;
  std::string path_;  // of a unix socket's file; empty: none
};

}  // namespace gemmd
