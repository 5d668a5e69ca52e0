// Decides when a measurement may stop: its last windows agree.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time/units.h"
#include "client/load/clock.h"
#include "client/load/sample.h"

namespace gemmd::load {

struct StabilityOptions {
  TimeNs window_ns = kSecond;
  double bound = 0.1;    // relative distance from the mean of the three
  int max_windows = 30;  // then the run ends, not stable; at least kAgreeing
};

inline constexpr int kAgreeing = 3;

// Counts of the requests that completed within one window.
struct WindowStatistics {
  std::uint64_t ok = 0;
  double requests_per_s = 0;
  double p50_us = 0;
};

WindowStatistics WindowOf(const std::vector<Sample>& samples, TimeNs begin_ns, TimeNs end_ns);

// Returns whether requests/s and median of each of the last three windows lie within `bound` of the
// mean of the three. A window without an answer agrees with nothing.
bool LastWindowsAgree(const std::vector<WindowStatistics>& windows, double bound);

}  // namespace gemmd::load
