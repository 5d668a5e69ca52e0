// Signals to the process, from outside and from its devices.
#pragma once

#include <csignal>

namespace gemmd {

// Values in the order they came: SIGTERM, SIGINT, SIGHUP and a device's loss. Each is written into
// a pipe. (Blocking the signals for sigwait() would need every thread to do so, and OpenBLAS starts
// threads before main().)
//
// REQUIRES: one in the process, which takes these signals over.
class Signals {
 public:
  static constexpr int kDeviceLost = SIGUSR1;  // which is never caught

  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Safe in signal handlers and on any thread.
  static void Raise(int signal);

  // The next signal; 0 if none came for `timeout_ms`, where -1 waits for ever.
  int Wait(int timeout_ms) const;
  // Returns whether a signal came other than SIGHUP, which has nothing to say to a server that
  // drains.
  bool AwaitStop(int timeout_ms) const;

 private:
  static inline int write_end = -1;
  int read_end_ = -1;
};

}  // namespace gemmd
