// A timer that waits for nothing and remembers what it was asked.
#pragma once

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "client/calls/timer.h"

namespace gemmd::testing {

// Runs the work at once, on the caller's thread. Read `delays` when no call is under way.
class RecordingTimer : public client::Timer {
 public:
  void After(absl::Duration delay, std::function<void()> work) override {
    delays.push_back(delay);
    work();
  }

  std::vector<absl::Duration> delays;
};

}  // namespace gemmd::testing
