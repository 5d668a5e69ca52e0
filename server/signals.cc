#include "server/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace gemmd {
namespace {

constexpr int kByUrgency[] = {Signals::kDeviceLost, SIGTERM, SIGINT, Signals::kDrain, SIGHUP};

// Those that came and were not told yet, a bit each.
std::atomic<unsigned> pending{0};
static_assert(std::atomic<unsigned>::is_always_lock_free);  // a handler sets it
// Written whenever one comes. It says only that `pending` is to be looked at, and is never full.
int wakeup = -1;

unsigned BitOf(int signal) { return 1U << static_cast<unsigned>(signal); }

// The most urgent of those that are pending, which it then is not; 0: none is.
int Take() {
  for (const int signal : kByUrgency) {
    if ((pending.fetch_and(~BitOf(signal)) & BitOf(signal)) != 0) return signal;
  }
  return 0;
}

}  // namespace

Signals::Signals() {
  wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakeup < 0) std::abort();
  struct sigaction action {};
  action.sa_handler = Raise;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
}

void Signals::Raise(int signal) {
  const int before = errno;  // of whatever a handler interrupts
  pending.fetch_or(BitOf(signal));
  const std::uint64_t one = 1;
  static_cast<void>(!write(wakeup, &one, sizeof one));
  errno = before;
}

int Signals::Wait(int timeout_ms) const {
  pollfd file{wakeup, POLLIN, 0};
  while (true) {
    // Before `pending` is looked at: what comes after that wakes again.
    std::uint64_t count = 0;
    static_cast<void>(!read(wakeup, &count, sizeof count));
    if (const int signal = Take(); signal != 0) return signal;
    if (poll(&file, 1, timeout_ms) == 0) return 0;
  }
}

bool Signals::AwaitStop(int timeout_ms) const {
  const int signal = Wait(timeout_ms);
  return signal != 0 && signal != SIGHUP && signal != kDrain;
}

}  // namespace gemmd
