// Signals to the process, from outside and from its devices.
#pragma once

#include <csignal>

namespace gemmd {

// SIGTERM, SIGINT, SIGHUP, a device's loss, and an operator's call of Drain. Each that came and was
// not told yet is remembered once: ten SIGHUPs ask for one reload, and none of them keeps a SIGTERM
// waiting. (Blocking the signals for sigwait() would need every thread to do so, those of libraries
// too.)
//
// REQUIRES: one in the process, which takes these signals over.
class Signals {
 public:
  // These two are never caught.
  static constexpr int kDeviceLost = SIGUSR1;
  static constexpr int kDrain = SIGUSR2;

  // Ends the process by abort() where it may open no file.
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Safe in signal handlers and on any thread.
  static void Raise(int signal);

  // The most urgent of the signals that came: a device's loss, SIGTERM, SIGINT, Drain, then SIGHUP.
  // 0 if none came for `timeout_ms`, where -1 waits for ever.
  int Wait(int timeout_ms) const;
  // Returns whether a signal came other than SIGHUP and Drain, which have nothing to say to a
  // server that drains.
  bool AwaitStop(int timeout_ms) const;
};

}  // namespace gemmd
