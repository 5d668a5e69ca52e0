// Times kernels beside each other. Pure: the machine is a seam, so that tests play it.
//
// At its power limit a GPU's clock follows the power of what ran before, so two figures are taken
// and neither trusts an order:
//   sustained  slices of 100 ms, each after as long a slice of the same kernel that is not
//              measured;
//   burst      30 ms of idleness, one warm launch, then 3 ms.
// Every round has every contender once, in a new random order.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/workshop/bench/statistics.h"

namespace gemmd::bench {

// Clocks and power while kernels ran, as the driver's management library tells them.
struct Telemetry {
  double sm_mhz = 0;
  double watts = 0;
};

// Runs and times launches. Contenders are numbered from 0 by whoever prepared them.
class Stage {
 public:
  virtual ~Stage() = default;

  // Queues `launches` launches of the contender one behind the other, on sets of operands in
  // turns, waits, and returns the milliseconds between the start of the first and the end of the
  // last. INTERNAL: a launch failed.
  virtual absl::StatusOr<double> Time(int contender, int launches) = 0;

  // Times like Time(), but queues each launch by itself, as a plain program would. Time() may
  // replay recorded sequences, so that short kernels do not wait for the CPU.
  virtual absl::StatusOr<double> TimeOneByOne(int contender, int launches) {
    return Time(contender, launches);
  }

  // Does nothing for that time, with nothing queued.
  virtual void Idle(double milliseconds) = 0;

  // Taken while the last Time() ran; nothing where the machine does not tell.
  virtual std::optional<Telemetry> LastTelemetry() const { return std::nullopt; }
};

struct Protocol {
  int rounds = 5;
  double sustained_ms = 100;
  double burst_ms = 3;
  double idle_ms = 30;
};

// The times of one launch.
struct Timing {
  std::string error;  // why there are no figures; empty where there are
  Summary sustained_ms;
  Summary burst_ms;
  // Medians over the sustained slices; 0 where the machine does not tell.
  double sm_mhz = 0;
  double watts = 0;
};

// Returns the number of launches that take about `milliseconds` together; at least two.
int LaunchesFor(double milliseconds, double milliseconds_each);

// Times contenders 0 to count - 1. One that fails drops out, and its Timing says why.
std::vector<Timing> TimeAll(int count, const Protocol& protocol, std::mt19937_64* order,
                            Stage* stage);

// One candidate of a search: the median of five repeats.
struct SearchResult {
  std::string error;
  double median_ms = 0;
};

// Times contenders one after the other: three warm launches, then five repeats of about 20 ms (4 to
// 100 launches, counted from the product's flops), of which the median counts. This is how bare
// programs look for cuBLASLt's best algorithm, so that figures can be compared with theirs.
std::vector<SearchResult> Search(int count, double flops, Stage* stage);

// Returns the indices of results without an error, quickest first, at most `limit`.
std::vector<int> Quickest(const std::vector<SearchResult>& results, int limit);

}  // namespace gemmd::bench
