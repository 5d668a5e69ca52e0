// Service level objectives, and the search for the highest rate that meets them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/results/summary.h"

namespace gemmd::load {

// "p99=5ms,errors=0.1%": every latency named is at most its limit, and at most that share (0 unless
// given) of the requests due is not answered with OK.
struct Slo {
  struct Limit {
    std::string name;  // mean, p50, p90, p95, p99, p99.9 or max
    double limit_us = 0;
  };
  std::vector<Limit> limits;
  double error_share = 0;
};

// INVALID_ARGUMENT quotes what is wrong. At least one latency must be given.
absl::StatusOr<Slo> ParseSlo(absl::string_view text);

// Empty where it holds; else the first objective that does not, with value and limit.
// Nothing was measured: does not hold.
std::string WhyMissed(const Slo& slo, const Summary& summary);

// Without an SLO the limit is the rate beyond which the server falls behind. Missed where less than
// 98 % of the rate is answered, or where p99 is above ten times `calm_p99_us`, that of the first,
// lowest rate (0 while there is none).
std::string WhyPastKnee(const Summary& summary, double calm_p99_us);

// Chooses the rates to try: doubling from the first until one fails (or halving until one holds),
// then between the two until they are within `precision` of each other. Not thread-safe.
class RateSearch {
 public:
  RateSearch(double first_per_s, double precision, int max_trials)
      : next_(first_per_s), precision_(precision), trials_left_(max_trials) {}

  // Nothing once the search is over.
  std::optional<double> Next() const;
  // Says whether the rate that Next() gave held.
  void Report(bool held);

  // The highest rate that held.
  std::optional<double> best() const { return holds_; }
  // The lowest that did not.
  std::optional<double> broken() const { return fails_; }

 private:
  double next_;
  const double precision_;
  int trials_left_;
  std::optional<double> holds_;
  std::optional<double> fails_;
};

}  // namespace gemmd::load
