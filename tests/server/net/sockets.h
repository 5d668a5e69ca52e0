// Both ends of connections, for tests.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace gemmd::testing {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { Close(); }

  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// Not connected yet, so that connecting it needs no descriptor.
inline Socket NewClient() { return Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Connects from an address of the loopback network, 127.0.0.`last`.
inline void Connect(const Socket& client, int port, std::uint32_t last = 1) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl((std::uint32_t{127} << 24) + last);
  ASSERT_EQ(bind(client.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ASSERT_EQ(connect(client.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

// Waits until the other end has closed the connection.
inline bool IsClosedByPeer(const Socket& client) {
  char byte = 0;
  return recv(client.fd(), &byte, 1, 0) <= 0;
}

}  // namespace gemmd::testing
