// Drives a transport with a chosen load and keeps a sample of every request: the core of
// `gemm bench`, and what tests and benchmarks of this repository use.
//
// Closed loop: so many requests in flight; each answer sends the next request. A slow
// answer delays what comes after it, so the latencies of a stall are few: use it for
// throughput. Open loop: requests are due at times that answers cannot move, and latency
// counts from the due time, so that a stall is in the latency of all who came during it
// (no coordinated omission): use it for latency.
//
// A closed loop pauses before it asks again where nobody was there to answer (pauses.h); an open
// loop keeps to its schedule.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time/units.h"
#include "client/load/arrivals.h"
#include "client/load/clock.h"
#include "client/load/cpu_usage.h"
#include "client/load/sample.h"
#include "client/load/stability.h"
#include "client/load/transport.h"

namespace gemmd::load {

struct LoadOptions {
  // One of the two: requests in flight of a closed loop, or an open loop's arrivals.
  int concurrency = 0;
  std::optional<ArrivalPlan> arrivals;

  TimeNs warm_up_ns = kSecond;  // sent and answered, not measured
  // A fixed time, or windows until they agree (stability.h). A replay may also end first.
  std::optional<TimeNs> duration_ns;
  StabilityOptions stability;

  // An open loop under overload keeps at most so many requests in flight. Requests that are due
  // beyond these wait, and their latency counts on; one that is never sent is a kNotSent sample.
  int max_in_flight = 10000;
  // A run with this many samples ends early. A sample takes 88 bytes.
  std::size_t max_samples = 25000000;
  // The threads of an open loop; 0 sends on the calling thread, which with a scripted clock and
  // transport makes a run deterministic.
  int sending_threads = 1;
  TimeNs tick_ns = kSecond / 5;          // between reports of progress
  std::uint64_t seed = 1;                // of the workload's mix
  std::function<CpuReading()> read_cpu;  // at the measured interval's ends; may be null
};

struct Progress {
  TimeNs elapsed_ns = 0;
  bool warming_up = false;
  std::uint64_t in_flight = 0;
  std::vector<Sample> recent;  // completed since the last report
};

// False ends the run.
using OnProgress = std::function<bool(const Progress&)>;

// A part of a run that is measured, since the run's start.
struct Turn {
  TimeNs begin_ns = 0;
  TimeNs end_ns = 0;
};

struct LoadRun {
  std::vector<Sample> samples;  // in no order
  TimeNs begin_ns = 0;          // the measured interval, since the start
  TimeNs end_ns = 0;
  std::vector<Turn> turns;                // of several runs that were joined (turns.h); else none
  std::vector<WindowStatistics> windows;  // unless the time was fixed
  std::optional<bool> stable;             // likewise
  std::string ended_early;                // why, if so
  std::optional<CpuUsage> cpu;            // of the measured interval
  std::vector<Turn> pauses;               // of a closed loop's requests in flight, each its own
};

// Runs one load to its end, the last answer included. INVALID_ARGUMENT where an option is
// out of its range. `weights` are of the workload's entries. Clock and transport must be
// thread-safe; `on_progress`, which may be null, runs on the calling thread.
absl::StatusOr<LoadRun> GenerateLoad(const LoadOptions& options, const std::vector<double>& weights,
                                     Clock& clock, Transport& transport,
                                     const OnProgress& on_progress = nullptr);

}  // namespace gemmd::load
