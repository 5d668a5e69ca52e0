#include "server/net/acceptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/time/units.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// After the system had no memory, or no descriptor even for a refusal.
constexpr int kPauseMs = 50;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

}  // namespace

Acceptor::Acceptor(std::vector<int> sockets, ConnectionTable* table, const Clock* clock,
                   MayConnect may_connect, HandOver hand_over)
    : sockets_(std::move(sockets)),
      table_(table),
      clock_(clock),
      may_connect_(std::move(may_connect)),
      hand_over_(std::move(hand_over)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      spare_(OpenSpare()) {
  if (stop_ < 0) std::abort();  // the process has no files left before it serves
  thread_ = std::thread([this] { Run(); });
}

Acceptor::~Acceptor() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(stop_, &one, sizeof one));
  thread_.join();
  close(stop_);
  if (spare_ >= 0) close(spare_);
}

void Acceptor::Run() {
  std::vector<pollfd> ready = {{stop_, POLLIN, 0}};
  for (const int socket : sockets_) ready.push_back({socket, POLLIN, 0});
  while (true) {
    const auto look_ms = static_cast<int>(table_->look_period() / kMillisecond);
    const int count = poll(ready.data(), ready.size(), look_ms);
    if (count < 0) continue;
    if (ready[0].revents != 0) return;
    CloseStalled();
    bool must_pause = false;
    for (std::size_t i = 1; i < ready.size(); ++i) {
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
  absl::Status status = may_connect_(peer);
  if (status.ok()) status = table_->Add(fd, peer);
  if (!status.ok()) {
    close(fd);
    LogRefusal(status.message());
    return Outcome::kTaken;
  }
  hand_over_(fd);
  return Outcome::kTaken;
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
