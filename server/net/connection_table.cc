#include "server/net/connection_table.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/network.h"
#include "base/time/units.h"

namespace gemmd {
namespace {

// A peer whose connections had to be closed opens nothing for so long: the work that they brought
// has still to be done, which takes a good part of that. If it happens again soon, twice as long.
// Connections that are closed together count once.
constexpr TimeNs kPenalty = 1'000'000'000;
constexpr TimeNs kMostPenalty = 8 * kPenalty;
constexpr TimeNs kSoon = 2 * kMostPenalty;
constexpr TimeNs kTogether = kPenalty / 10;
// The names of all local sockets as peers, and of those whose peer has gone.
constexpr char kLocal[] = "unix";
constexpr char kGone[] = "gone";

LedgerRules Rules() {
  LedgerRules rules;
  rules.quantities[0] = {"connections", "open connections"};
  rules.limit = "share";
  return rules;
}

LimitTable TableOf(const ConnectionTable::Limits& limits) {
  return {Unlimited(), Amounts{limits.per_peer}, Amounts{limits.all}};
}

// Returns the system's count; none for local sockets, and by systems of before 2015.
std::optional<ConnectionTraffic> TrafficOf(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) {
    return std::nullopt;
  }
  return ConnectionTraffic{info.tcpi_bytes_received, info.tcpi_bytes_acked, 0};
}

// Empty where nothing waits; else without what was acknowledged.
SendQueue SendQueueOf(int fd) {
  int waiting = 0;
  if (ioctl(fd, SIOCOUTQ, &waiting) != 0 || waiting == 0) return {};
  pollfd room{fd, POLLOUT, 0};
  return {0, static_cast<std::uint64_t>(waiting), poll(&room, 1, 0) > 0};
}

int UnreadBytesOf(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCINQ, &bytes) == 0 ? bytes : 0;
}

}  // namespace

std::string PeerOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    return NetworkText(reinterpret_cast<const sockaddr_in*>(&peer)->sin_addr);
  }
  if (peer.ss_family != AF_INET6) return kLocal;
  return NetworkText(reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_addr);
}

std::string PeerOf(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return kGone;
  return PeerOf(peer);
}

std::string EndpointOf(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return kGone;
  return EndpointOf(peer);
}

std::string EndpointOf(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family == AF_INET) {
    const auto* const v4 = reinterpret_cast<const sockaddr_in*>(&peer);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return absl::StrCat(text.data(), ":", ntohs(v4->sin_port));
  }
  if (peer.ss_family != AF_INET6) return kLocal;
  const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(&peer);
  const int port = ntohs(v6->sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text.data(), text.size());
    return absl::StrCat(text.data(), ":", port);
  }
  inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  return absl::StrCat("[", text.data(), "]:", port);
}

bool ConnectionTable::IsOpen(const Connection& connection) {
  struct stat file {};
  return fstat(connection.fd, &file) == 0 && S_ISSOCK(file.st_mode) &&
         file.st_ino == connection.inode;
}

ConnectionTable::ConnectionTable(const Limits& limits, const ProgressLimit& reading,
                                 const Clock* clock, Quotas* quotas)
    : clock_(clock),
      quotas_(quotas),
      ledger_(Rules(), TableOf(limits)),
      limits_(limits),
      reading_(reading) {}

void ConnectionTable::SetLimits(const Limits& limits, const ProgressLimit& reading) {
  ledger_.SetLimits(TableOf(limits));
  const MutexLock lock(mutex_);
  limits_ = limits;
  reading_ = reading;
}

TimeNs ConnectionTable::Earliest(TimeNs now) const {
  return now - static_cast<TimeNs>(limits_.per_peer) * limits_.interval;
}

void ConnectionTable::ForgetClosed() {
  const TimeNs now = clock_->Now();
  if (now < next_look_) return;
  next_look_ = now + limits_.look_interval;
  for (auto each = peers_.begin(); each != peers_.end();) {
    Peer& peer = each->second;
    std::vector<Connection>& connections = peer.connections;
    const auto closed =
        std::partition(connections.begin(), connections.end(),
                       [](const Connection& connection) { return IsOpen(connection); });
    if (closed != connections.end()) {
      const MutexLock lock(users_mutex_);
      for (auto gone = closed; gone != connections.end(); ++gone) users_.erase(gone->endpoint);
      connections.erase(closed, connections.end());
    }
    const bool was_punished = peer.penalty != 0 && now - peer.closed_at < kSoon;
    const bool is_as_new = connections.empty() && !was_punished && peer.paid_until <= Earliest(now);
    each = is_as_new ? peers_.erase(each) : std::next(each);
  }
}

absl::Status ConnectionTable::Add(int fd, const std::string& peer, const std::string& client) {
  const MutexLock lock(mutex_);
  absl::StatusOr<Hold> place = TakePlace(peer);
  absl::Status status = place.status();
  if (status.ok()) status = Pace(peer);
  if (!status.ok()) {
    ++refused_;
    return status;
  }
  struct stat file {};
  fstat(fd, &file);
  std::string endpoint = EndpointOf(fd);
  if (endpoint != kLocal && endpoint != kGone) {
    const MutexLock users_lock(users_mutex_);
    users_[endpoint].clear();  // of one that had the same port before, and was not forgotten yet
  }
  ForwardedPeers::Entry forwarded;
  if (!client.empty()) forwarded = ForwardedPeers::Get().Add(endpoint, client);
  peers_[peer].connections.push_back({*std::move(place),
                                      fd,
                                      file.st_ino,
                                      std::move(endpoint),
                                      ReadingProgress(),
                                      false,
                                      {},
                                      std::move(forwarded)});
  ++taken_;
  return absl::OkStatus();
}

absl::StatusOr<Hold> ConnectionTable::TakePlace(const std::string& peer) {
  Holder holder;
  if (limits_.proxies.count(peer) == 0) holder.address = peer;
  absl::StatusOr<Hold> place = ledger_.Take(holder, {1});
  if (place.ok()) return place;
  ForgetClosed();
  return ledger_.Take(holder, {1});
}

// Checks that the peer may open a connection now, and charges it for that.
absl::Status ConnectionTable::Pace(const std::string& peer) {
  if (limits_.proxies.count(peer) != 0 || limits_.interval == 0) return absl::OkStatus();
  TimeNs& paid_until = peers_[peer].paid_until;
  const TimeNs now = clock_->Now();
  const TimeNs paid = std::max(paid_until, Earliest(now)) + limits_.interval;
  if (paid > now) {
    return absl::ResourceExhaustedError(absl::StrCat(
        peer, " opens more than ", kSecond / limits_.interval, " connections a second"));
  }
  paid_until = paid;
  return absl::OkStatus();
}

absl::Status ConnectionTable::CountFor(const Tenant& tenant, const std::string& endpoint) {
  if (quotas_ == nullptr || tenant.quota() == nullptr) return absl::OkStatus();
  if (TryToCount(tenant, endpoint).ok()) return absl::OkStatus();
  {
    const MutexLock lock(mutex_);
    ForgetClosed();
  }
  absl::Status status = TryToCount(tenant, endpoint);
  quotas_->Report(tenant, status);
  return status;
}

absl::Status ConnectionTable::TryToCount(const Tenant& tenant, const std::string& endpoint) {
  // A gateway may speak for any number of tenants over one connection, which is no reason to
  // remember all of them.
  constexpr std::size_t kMostUsers = 16;
  const MutexLock lock(users_mutex_);
  const auto found = users_.find(endpoint);
  if (found == users_.end()) return absl::OkStatus();
  Users& users = found->second;
  const std::string& account = tenant.quota()->account;
  if (std::any_of(users.begin(), users.end(),
                  [&account](const User& user) { return user.account == account; })) {
    return absl::OkStatus();
  }
  absl::StatusOr<Hold> hold = quotas_->Take(tenant, AmountOf(Quantity::kConnections, 1));
  if (!hold.ok()) return hold.status();
  if (users.size() == kMostUsers) users.erase(users.begin());
  users.push_back({account, *std::move(hold)});
  return absl::OkStatus();
}

ConnectionTable::Traffic ConnectionTable::ReadTraffic() {
  Traffic traffic;
  const MutexLock lock(mutex_);
  ForgetClosed();
  traffic.reserve(ledger_.held().front());
  for (const auto& [name, peer] : peers_) {
    for (const Connection& each : peer.connections) {
      if (each.is_shut_down) continue;
      std::optional<ConnectionTraffic> found = TrafficOf(each.fd);
      if (!found.has_value()) continue;
      found->unread = static_cast<std::uint64_t>(UnreadBytesOf(each.fd));
      if (IsOpen(each)) traffic[each.endpoint] = *found;
    }
  }
  return traffic;
}

std::uint64_t ConnectionTable::UnacknowledgedBytes() {
  std::uint64_t sum = 0;
  const MutexLock lock(mutex_);
  for (const auto& [name, peer] : peers_) {
    for (const Connection& each : peer.connections) {
      int bytes = 0;
      if (each.is_shut_down || ioctl(each.fd, SIOCOUTQ, &bytes) != 0 || !IsOpen(each)) continue;
      sum += static_cast<std::uint64_t>(bytes);
    }
  }
  return sum;
}

ConnectionTable::Usage ConnectionTable::usage() {
  const MutexLock lock(mutex_);
  ForgetClosed();
  return {static_cast<std::size_t>(ledger_.held().front()), limits_.all, taken_, refused_};
}

bool ConnectionTable::Close(const std::string& endpoint, Reopening reopening) {
  const MutexLock lock(mutex_);
  Connection* found = nullptr;
  Peer* owner = nullptr;
  // Few bytes wait for a moment of any client.
  int most = (1 << 15) - 1;
  for (auto& [name, peer] : peers_) {
    for (Connection& each : peer.connections) {
      if (each.endpoint != endpoint || each.is_shut_down || !IsOpen(each)) continue;
      if (endpoint == kLocal) {
        const int unread = UnreadBytesOf(each.fd);
        if (unread <= most) continue;
        most = unread;
      }
      found = &each;
      owner = &peer;
    }
  }
  if (found == nullptr || !ShutDown(*found)) return false;
  found->is_shut_down = true;
  if (reopening == Reopening::kAtOnce) return true;
  owner->Punish(clock_->Now());
  return true;
}

void ConnectionTable::CloseAll() {
  const MutexLock lock(mutex_);
  for (auto& [name, peer] : peers_) {
    for (Connection& each : peer.connections) {
      if (!each.is_shut_down) each.is_shut_down = ShutDown(each);
    }
  }
}

void ConnectionTable::Peer::Punish(TimeNs now) {
  const TimeNs passed = penalty == 0 ? kSoon : now - closed_at;
  if (passed < kTogether) return;
  penalty = passed < kSoon ? std::min(2 * penalty, kMostPenalty) : kPenalty;
  closed_at = now;
  paid_until = std::max(paid_until, now + penalty);
}

std::vector<std::string> ConnectionTable::CloseStalled() {
  std::vector<std::string> closed;
  const MutexLock lock(mutex_);
  ForgetClosed();
  const TimeNs now = clock_->Now();
  for (auto& [name, peer] : peers_) {
    for (Connection& each : peer.connections) {
      if (each.is_shut_down || !IsOpen(each)) continue;
      each.reading.Look(QueueOf(&each), reading_, now);
      if (!each.reading.IsStalled(now) || !ShutDown(each)) continue;
      each.is_shut_down = true;
      closed.push_back(each.endpoint);
    }
  }
  return closed;
}

SendQueue ConnectionTable::QueueOf(Connection* connection) const {
  SendQueue queue = SendQueueOf(connection->fd);
  if (connection->endpoint != kLocal) {
    const std::optional<ConnectionTraffic> traffic = TrafficOf(connection->fd);
    if (!traffic.has_value()) return {};
    queue.acknowledged = traffic->sent;
    return queue;
  }
  // A local client that has no call reads nothing, and a few bytes may wait for it.
  if (queue.has_room) return {};
  // The system does not count what the peer of a local socket acknowledged. A queue of another
  // length means that the peer read, and that is enough: only one that reads nothing is slow.
  SendQueue& last = connection->local_queue;
  queue.acknowledged = last.acknowledged;
  if (queue.waiting != last.waiting) queue.acknowledged += std::uint64_t{1} << 40;
  last = queue;
  return queue;
}

TimeNs ConnectionTable::look_period() {
  constexpr TimeNs kMost = 500'000'000;
  const MutexLock lock(mutex_);
  return std::min(kMost, reading_.window / 4);
}

// Its owner may close the descriptor at any time, and the next file get its number. A second one
// keeps what is behind it until it was looked at.
bool ConnectionTable::ShutDown(const Connection& connection) {
  const int held = fcntl(connection.fd, F_DUPFD_CLOEXEC, 0);
  if (held < 0) return false;
  struct stat file {};
  const bool is_open = fstat(held, &file) == 0 && file.st_ino == connection.inode;
  if (is_open) {
    shutdown(held, SHUT_RDWR);
    // Its owner would go on with what has come, which may be megabytes.
    constexpr std::size_t kMost = 1 << 30;
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not, with MSG_DONTWAIT
    while (recv(held, nullptr, kMost, MSG_TRUNC | MSG_DONTWAIT) > 0) {
    }
  }
  close(held);
  return is_open;
}

}  // namespace gemmd
