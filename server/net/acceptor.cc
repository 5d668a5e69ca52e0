#include "server/net/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "server/net/proxy_header.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// After the system had no memory, or no descriptor even for a refusal.
constexpr int kPauseMs = 50;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(std::vector<int> sockets, ConnectionTable* table, const Clock* clock,
                   MayConnect may_connect, HandOver hand_over, ForwardedPeers* forwarded)
    : sockets_(std::move(sockets)),
      table_(table),
      clock_(clock),
      may_connect_(std::move(may_connect)),
      hand_over_(std::move(hand_over)),
      forwarded_(forwarded),
      stop_(eventfd(0, EFD_CLOEXEC)),
      spare_(OpenSpare()) {
  if (stop_ < 0) std::abort();  // the process has no files left before it serves
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(stop_, &one, sizeof one));
  thread_.join();
  for (const Arriving& each : arriving_) close(each.fd);
  close(stop_);
  if (spare_ >= 0) close(spare_);
}

void Acceptor::Run() {
  std::vector<pollfd> ready = {{stop_, POLLIN, 0}};
  for (const int socket : sockets_) ready.push_back({socket, POLLIN, 0});
  const std::size_t listening = ready.size();
  while (true) {
    ready.resize(listening);
    for (const Arriving& each : arriving_) ready.push_back({each.fd, POLLIN, 0});
    const auto look_ms = static_cast<int>(table_->look_period() / kMillisecond);
    const int count = poll(ready.data(), ready.size(), look_ms);
    if (count < 0) continue;
    if (ready[0].revents != 0) return;
    CloseStalled();
    LookAtArriving();
    bool must_pause = false;
    for (std::size_t i = 1; i < listening; ++i) {
      if (ready[i].revents == 0) continue;
      Outcome outcome = Outcome::kTaken;
      // Takes all that wait, but no more than so many, because clients could keep this up for ever.
      for (int taken = 0; taken < 64 && outcome == Outcome::kTaken; ++taken) {
        outcome = TakeOne(ready[i].fd);
      }
      must_pause = must_pause || outcome == Outcome::kNoMemory;
    }
    if (must_pause && poll(ready.data(), 1, kPauseMs) > 0) return;
  }
}

Acceptor::Outcome Acceptor::TakeOne(int socket) {
  const int fd = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    switch (errno) {
      case EAGAIN:
        return Outcome::kNoneLeft;
      case EMFILE:
      case ENFILE:
        if (spare_ < 0) spare_ = OpenSpare();
        if (spare_ < 0) return Outcome::kNoMemory;
        return RefuseWithSpare(socket);
      case ENOBUFS:
      case ENOMEM:
        return Outcome::kNoMemory;
      default:  // that client has gone, or a signal came
        return Outcome::kTaken;
    }
  }
  const std::string peer = PeerOf(fd);
  if (forwarded_ != nullptr && forwarded_->IsProxy(peer)) {
    Await(fd);
  } else {
    Admit(fd, peer, "");
  }
  return Outcome::kTaken;
}

void Acceptor::Admit(int fd, const std::string& peer, const std::string& client) {
  absl::Status status = may_connect_(peer);
  if (status.ok()) status = table_->Add(fd, peer, client);
  if (!status.ok()) {
    close(fd);
    LogRefusal(status.message());
    return;
  }
  hand_over_(fd);
}

void Acceptor::Await(int fd) {
  if (arriving_.size() == kMostArriving) {
    close(arriving_.front().fd);
    arriving_.erase(arriving_.begin());
    LogRefusal("too many connections of proxies wait for their header");
  }
  arriving_.push_back({fd, clock_->Now() + kHeaderTime, ""});
  // Mostly it has come already.
  if (!ReadHeader(&arriving_.back())) arriving_.pop_back();
}

bool Acceptor::ReadHeader(Arriving* arriving) {
  const int fd = arriving->fd;
  const std::string proxy = EndpointOf(fd);
  while (true) {
    const absl::StatusOr<ProxyHeader> header = ReadProxyHeader(arriving->header);
    if (!header.ok()) {
      close(fd);
      LogRefusal(absl::StrCat(proxy, ": ", header.status().message()));
      return false;
    }
    if (header->missing == 0) {
      const bool is_named = header->client.ss_family != AF_UNSPEC;
      Admit(fd, is_named ? PeerOf(header->client) : PeerOf(fd),
            is_named ? EndpointOf(header->client) : "");
      return false;
    }
    // No byte behind the header, which is not this one's.
    std::array<char, kMostProxyHeaderBytes> bytes;
    const ssize_t got = recv(fd, bytes.data(), std::min(header->missing, bytes.size()), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) {  // a proxy that looks whether somebody listens goes without a word
      close(fd);
      return false;
    }
    arriving->header.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

void Acceptor::LookAtArriving() {
  const TimeNs now = clock_->Now();
  std::vector<Arriving> arriving = std::move(arriving_);
  arriving_.clear();
  for (Arriving& each : arriving) {
    if (!ReadHeader(&each)) continue;
    if (now < each.until) {
      arriving_.push_back(std::move(each));
      continue;
    }
    LogRefusal(absl::StrCat(EndpointOf(each.fd), " sends no header of the PROXY protocol"));
    close(each.fd);
  }
}

void Acceptor::CloseStalled() {
  const TimeNs now = clock_->Now();
  if (now < next_look_) return;
  next_look_ = now + table_->look_period();
  for (const std::string& endpoint : table_->CloseStalled()) {
    Log(Severity::kWarning, "connection_closed",
        {{"peer", endpoint}, {"why", "its client does not read"}});
  }
}

// Without a descriptor the system does not even say whether a connection waits.
Acceptor::Outcome Acceptor::RefuseWithSpare(int socket) {
  close(spare_);
  const int fd = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) close(fd);
  spare_ = OpenSpare();
  if (fd < 0) return Outcome::kNoneLeft;
  LogRefusal("the process has no file descriptor left");
  return Outcome::kTaken;
}

// One line for each power of two of them.
void Acceptor::LogRefusal(absl::string_view why) {
  ++refused_;
  if ((refused_ & (refused_ - 1)) != 0) return;
  Log(Severity::kWarning, "connection_refused", {{"why", why}, {"refused", refused_}});
}

}  // namespace gemmd
