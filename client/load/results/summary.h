// Computes figures from samples: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/load/load_generator.h"
#include "client/load/sample.h"

namespace gemmd::load {

// The bytes and operations of one request of a workload's entry.
struct EntryCost {
  std::uint64_t bytes_in = 0;  // payload to the server
  std::uint64_t bytes_out = 0;
  double flops = 0;
};

// Microseconds; zeros where there is no sample. Percentiles are exact, by nearest rank.
struct Latency {
  double mean_us = 0;
  double min_us = 0;
  double p50_us = 0;
  double p90_us = 0;
  double p95_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
};

// The percentiles above and more, for a curve: {99.9, us}.
using Quantiles = std::vector<std::pair<double, double>>;

// Values up to `upper_us` and above the bucket before.
struct Bucket {
  double upper_us = 0;
  std::uint64_t count = 0;
};

// A slice of the whole run, warm-up included, by completion.
struct Slice {
  double begin_s = 0;
  double requests_per_s = 0;  // answered with OK
  double errors_per_s = 0;
  double p50_us = 0;
  double p90_us = 0;
  double p95_us = 0;
  double p99_us = 0;
  double p999_us = 0;
};

// Requests count where they are due within the measured interval, whenever they are
// answered; throughput counts what is answered within it.
struct Summary {
  double seconds = 0;
  std::uint64_t requests = 0;  // ok + all errors + not_sent
  std::uint64_t ok = 0;
  std::uint64_t not_sent = 0;
  std::map<std::string, std::uint64_t> errors;  // by status code's name

  double offered_per_s = 0;   // due: a Poisson schedule's draw, near its rate but seldom equal
  double requests_per_s = 0;  // answered with OK
  double gb_per_s = 0;        // payload both ways, 1e9 bytes
  double tflops = 0;

  // Counted from the due time, of OK answers; and, as lower bounds, of requests that were not sent.
  Latency latency;
  Quantiles quantiles;
  std::vector<Bucket> histogram;  // of the same values, ten buckets a decade
  // Counted from the moment of sending, of OK answers: what the same load without the wait for its
  // turn took.
  Latency service;
  double late_p99_us = 0;  // how long after they were due requests left

  std::uint64_t pauses = 0;  // of a closed loop, where nobody answered
  double paused_s = 0;       // their sum over all requests in flight

  std::array<double, kStages> stage_mean_us{};            // of OK answers
  std::map<std::uint32_t, std::uint64_t> batch_requests;  // launches' sizes, by answer
  std::map<std::uint16_t, std::uint64_t> entries;         // OK answers of each

  std::uint64_t error_count() const { return requests - ok - not_sent; }
};

Summary Summarize(const LoadRun& run, const std::vector<EntryCost>& costs);

// Returns at most `slices` of equal length.
std::vector<Slice> Timeline(const LoadRun& run, int slices);

}  // namespace gemmd::load
