#include "server/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>

namespace gemmd {

Signals::Signals() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();  // the process has no files left
  read_end_ = ends[0];
  write_end = ends[1];
  struct sigaction action {};
  action.sa_handler = Raise;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
}

void Signals::Raise(int signal) {
  const auto byte = static_cast<char>(signal);
  static_cast<void>(!write(write_end, &byte, 1));
}

int Signals::Wait(int timeout_ms) const {
  pollfd file{read_end_, POLLIN, 0};
  char byte = 0;
  do {
    const int ready = poll(&file, 1, timeout_ms);
    if (ready == 0) return 0;
  } while (read(read_end_, &byte, 1) != 1);
  return byte;
}

bool Signals::AwaitStop(int timeout_ms) const {
  const int signal = Wait(timeout_ms);
  return signal != 0 && signal != SIGHUP;
}

}  // namespace gemmd
