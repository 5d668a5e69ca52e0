#include "tests/client/testing/forwarder.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gemmd::testing {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// Sends at once what is small, because the other end waits for it.
void SendAtOnce(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// -1: nobody listens there.
int ConnectTo(const std::string& target) {
  int port = 0;
  if (!absl::SimpleAtoi(target.substr(target.rfind(':') + 1), &port)) return -1;
  const int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  if (connect(connected, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    return connected;
  }
  close(connected);
  return -1;
}

}  // namespace

struct Forwarder::Connection {
  int client = -1;
  int server = -1;
  bool is_silent = false;
  std::vector<std::thread> threads;
};

Forwarder::Forwarder(std::string target) : target_(std::move(target)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener_, any, size) == 0 && listen(listener_, 16) == 0 &&
      getsockname(listener_, any, &size) == 0) {
    port_ = ntohs(address.sin_port);
  }
  thread_ = std::thread([this] { Accept(); });
}

Forwarder::~Forwarder() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  for (const auto& connection : connections_) {
    shutdown(connection->client, SHUT_RDWR);
    if (connection->server >= 0) shutdown(connection->server, SHUT_RDWR);
    for (std::thread& thread : connection->threads) thread.join();
    close(connection->client);
    if (connection->server >= 0) close(connection->server);
  }
  close(listener_);
}

std::string Forwarder::target() const { return absl::StrCat("127.0.0.1:", port_); }

void Forwarder::Silence() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& connection : connections_) connection->is_silent = true;
}

void Forwarder::CutAfter(std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = bytes;
}

int Forwarder::cuts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cuts_;
}

int Forwarder::connections() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(connections_.size());
}

std::string Forwarder::received() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return received_;
}

void Forwarder::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    auto connection = std::make_unique<Connection>();
    connection->client = client;
    if (!target_.empty()) connection->server = ConnectTo(target_);
    SendAtOnce(client);
    if (connection->server >= 0) SendAtOnce(connection->server);
    const std::lock_guard<std::mutex> lock(mutex_);
    Connection& added = *connections_.emplace_back(std::move(connection));
    added.threads.emplace_back([this, &added] { Copy(added, true); });
    if (added.server >= 0) added.threads.emplace_back([this, &added] { Copy(added, false); });
  }
}

std::optional<std::size_t> Forwarder::LeftBeforeCut(std::size_t count) {
  if (!left_) return std::nullopt;
  if (count >= *left_) return std::exchange(left_, std::nullopt);
  *left_ -= count;
  return std::nullopt;
}

void Forwarder::Copy(Connection& connection, bool is_from_client) {
  const int from = is_from_client ? connection.client : connection.server;
  const int to = is_from_client ? connection.server : connection.client;
  char bytes[1 << 16];
  while (true) {
    ssize_t count = recv(from, bytes, sizeof(bytes), 0);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (count > 0 && is_from_client && target_.empty()) {
      received_.append(bytes, static_cast<std::size_t>(count));
    }
    if (connection.is_silent || to < 0) {
      if (count <= 0) return;
      continue;
    }
    if (count <= 0) {
      shutdown(to, SHUT_WR);
      return;
    }
    std::optional<std::size_t> last;
    if (!is_from_client) last = LeftBeforeCut(static_cast<std::size_t>(count));
    if (last) count = static_cast<ssize_t>(*last);
    // Tests send little: a peer that does not read would hold the lock.
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t more =
          send(to, bytes + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += more;
    }
    if (!last) continue;
    ++cuts_;
    for (const auto& each : connections_) {
      shutdown(each->client, SHUT_RDWR);
      shutdown(each->server, SHUT_RDWR);
    }
  }
}

}  // namespace gemmd::testing
