// The one thing the client waits on besides the network, behind a seam.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace gemmd::client {

// Thread-safe. Tests replace it, so that no test waits.
class Timer {
 public:
  virtual ~Timer() = default;

  // Runs `work` once, `delay` from now, on a thread of the timer's own choosing, the
  // caller's included.
  virtual void After(absl::Duration delay, std::function<void()> work) = 0;
};

// A timer over gRPC's alarms: it has no thread of its own.
std::shared_ptr<Timer> MakeAlarmTimer();

}  // namespace gemmd::client
