#include "client/load/results/summary.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "base/time/units.h"
#include "client/load/percentile.h"
#include "client/load/results/turns.h"

namespace gemmd::load {
namespace {

double ToUs(TimeNs time) { return static_cast<double>(time) / 1e3; }

Latency LatencyOf(const std::vector<TimeNs>& sorted) {
  Latency latency;
  if (sorted.empty()) return latency;
  double sum = 0;
  for (const TimeNs value : sorted) sum += ToUs(value);
  latency.mean_us = sum / static_cast<double>(sorted.size());
  latency.min_us = ToUs(sorted.front());
  latency.p50_us = ToUs(PercentileOf(sorted, 50));
  latency.p90_us = ToUs(PercentileOf(sorted, 90));
  latency.p95_us = ToUs(PercentileOf(sorted, 95));
  latency.p99_us = ToUs(PercentileOf(sorted, 99));
  latency.p999_us = ToUs(PercentileOf(sorted, 99.9));
  latency.max_us = ToUs(sorted.back());
  return latency;
}

// Ever closer to 100, as far as there are samples to tell percentiles apart.
Quantiles QuantilesOf(const std::vector<TimeNs>& sorted) {
  Quantiles quantiles;
  double rest = 100;
  for (const double step : {0., 10., 25., 50., 75., 90., 95., 98., 99.}) {
    quantiles.emplace_back(step, ToUs(PercentileOf(sorted, step)));
    rest = 100 - step;
  }
  while (rest / 100 * static_cast<double>(sorted.size()) > 1 && quantiles.size() < 40) {
    rest /= 2;
    quantiles.emplace_back(100 - rest, ToUs(PercentileOf(sorted, 100 - rest)));
  }
  return quantiles;
}

std::vector<Bucket> HistogramOf(const std::vector<TimeNs>& sorted) {
  std::vector<Bucket> buckets;
  std::size_t position = 0;
  if (sorted.empty()) return buckets;
  int exponent = static_cast<int>(std::floor(10 * std::log10(std::max(1.0, ToUs(sorted[0])))));
  while (position < sorted.size()) {
    Bucket bucket;
    bucket.upper_us = std::pow(10, ++exponent / 10.0);
    while (position < sorted.size() && ToUs(sorted[position]) <= bucket.upper_us) {
      ++bucket.count;
      ++position;
    }
    buckets.push_back(bucket);
  }
  return buckets;
}

// The parts of pauses that lie in the measured time.
void AddPauses(const std::vector<Turn>& pauses, const std::vector<Turn>& turns, Summary& summary) {
  for (const Turn& pause : pauses) {
    TimeNs within_ns = 0;
    for (const Turn& turn : turns) {
      within_ns += std::max<TimeNs>(
          0, std::min(pause.end_ns, turn.end_ns) - std::max(pause.begin_ns, turn.begin_ns));
    }
    if (within_ns == 0) continue;
    ++summary.pauses;
    summary.paused_s += static_cast<double>(within_ns) / kSecond;
  }
}

}  // namespace

Summary Summarize(const LoadRun& run, const std::vector<EntryCost>& costs) {
  Summary summary;
  std::vector<TimeNs> latencies;
  std::vector<TimeNs> services;
  std::vector<TimeNs> late;
  std::array<double, kStages> stage_sums{};
  double answered = 0;
  double bytes = 0;
  double flops = 0;
  const std::vector<Turn> turns = TurnsOf(run);
  const auto is_within = [&turns](TimeNs time) { return FindTurn(turns, time) < turns.size(); };
  for (const Sample& sample : run.samples) {
    if (sample.ok() && is_within(sample.completed_ns)) {
      const EntryCost& cost = costs[sample.entry];
      ++answered;
      bytes += static_cast<double>(cost.bytes_in + cost.bytes_out);
      flops += cost.flops;
    }
    if (!is_within(sample.intended_ns)) continue;
    ++summary.requests;
    late.push_back(sample.sent_ns - sample.intended_ns);
    if (sample.code == kNotSent) {
      ++summary.not_sent;
      latencies.push_back(sample.latency_ns());
    } else if (sample.ok()) {
      ++summary.ok;
      latencies.push_back(sample.latency_ns());
      services.push_back(sample.completed_ns - sample.sent_ns);
      for (std::size_t i = 0; i < kStages; ++i) stage_sums[i] += sample.stage_us[i];
      if (sample.batch_requests > 0) ++summary.batch_requests[sample.batch_requests];
      ++summary.entries[sample.entry];
    } else {
      ++summary.errors[absl::StatusCodeToString(static_cast<absl::StatusCode>(sample.code))];
    }
  }
  std::sort(latencies.begin(), latencies.end());
  std::sort(services.begin(), services.end());
  summary.latency = LatencyOf(latencies);
  summary.quantiles = QuantilesOf(latencies);
  summary.histogram = HistogramOf(latencies);
  summary.service = LatencyOf(services);
  summary.late_p99_us = ToUs(SelectPercentile(late, 99));
  AddPauses(run.pauses, turns, summary);
  for (const Turn& turn : turns) {
    summary.seconds += static_cast<double>(turn.end_ns - turn.begin_ns) / kSecond;
  }
  if (summary.seconds > 0) {
    summary.offered_per_s = static_cast<double>(summary.requests) / summary.seconds;
    summary.requests_per_s = answered / summary.seconds;
    summary.gb_per_s = bytes / summary.seconds / 1e9;
    summary.tflops = flops / summary.seconds / 1e12;
  }
  for (std::size_t i = 0; i < kStages && summary.ok > 0; ++i) {
    summary.stage_mean_us[i] = stage_sums[i] / static_cast<double>(summary.ok);
  }
  return summary;
}

std::vector<Slice> Timeline(const LoadRun& run, int slices) {
  const TimeNs length_ns = std::max<TimeNs>(1, (run.end_ns + slices - 1) / slices);
  const auto count = static_cast<std::size_t>((run.end_ns + length_ns - 1) / length_ns);
  std::vector<std::vector<TimeNs>> latencies(count);
  std::vector<double> errors(count);
  for (const Sample& sample : run.samples) {
    const auto slice = static_cast<std::size_t>(sample.completed_ns / length_ns);
    if (slice >= count || sample.code == kNotSent) continue;
    if (sample.ok()) {
      latencies[slice].push_back(sample.latency_ns());
    } else {
      ++errors[slice];
    }
  }
  std::vector<Slice> timeline;
  for (std::size_t i = 0; i < count; ++i) {
    const TimeNs begin_ns = static_cast<TimeNs>(i) * length_ns;
    const double seconds =
        static_cast<double>(std::min(length_ns, run.end_ns - begin_ns)) / kSecond;
    Slice slice;
    slice.begin_s = static_cast<double>(begin_ns) / kSecond;
    slice.requests_per_s = static_cast<double>(latencies[i].size()) / seconds;
    slice.errors_per_s = errors[i] / seconds;
    std::sort(latencies[i].begin(), latencies[i].end());
    slice.p50_us = ToUs(PercentileOf(latencies[i], 50));
    slice.p90_us = ToUs(PercentileOf(latencies[i], 90));
    slice.p95_us = ToUs(PercentileOf(latencies[i], 95));
    slice.p99_us = ToUs(PercentileOf(latencies[i], 99));
    slice.p999_us = ToUs(PercentileOf(latencies[i], 99.9));
    timeline.push_back(slice);
  }
  return timeline;
}

}  // namespace gemmd::load
