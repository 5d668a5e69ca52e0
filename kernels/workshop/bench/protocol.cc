#include "kernels/workshop/bench/protocol.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gemmd::bench {
namespace {

constexpr int kMostLaunches = 1 << 16;

struct Samples {
  std::string error;
  int slice = 0;  // launches
  int burst = 0;
  std::vector<double> sustained_ms;
  std::vector<double> burst_ms;
  std::vector<double> sm_mhz;
  std::vector<double> watts;
};

// Milliseconds of one launch; nothing, and the reason in *samples, where it failed.
std::optional<double> Each(int contender, int launches, Stage* stage, Samples* samples) {
  const absl::StatusOr<double> ms = stage->Time(contender, launches);
  if (ms.ok()) return *ms / launches;
  samples->error = std::string(ms.status().message());
  return std::nullopt;
}

void Prepare(int contender, const Protocol& protocol, Stage* stage, Samples* samples) {
  if (!Each(contender, 2, stage, samples)) return;
  const std::optional<double> rough = Each(contender, 3, stage, samples);
  if (!rough) return;
  // A launch that takes microseconds is estimated from more of them.
  const std::optional<double> each =
      Each(contender, std::min(200, LaunchesFor(1, *rough)), stage, samples);
  if (!each) return;
  samples->slice = LaunchesFor(protocol.sustained_ms, *each);
  samples->burst = LaunchesFor(protocol.burst_ms, *each);
}

void Sustain(int contender, Stage* stage, Samples* samples) {
  if (!Each(contender, samples->slice, stage, samples)) return;
  const std::optional<double> ms = Each(contender, samples->slice, stage, samples);
  if (!ms) return;
  samples->sustained_ms.push_back(*ms);
  if (const std::optional<Telemetry> telemetry = stage->LastTelemetry()) {
    samples->sm_mhz.push_back(telemetry->sm_mhz);
    samples->watts.push_back(telemetry->watts);
  }
}

void Burst(int contender, const Protocol& protocol, Stage* stage, Samples* samples) {
  stage->Idle(protocol.idle_ms);
  if (!Each(contender, 1, stage, samples)) return;
  const std::optional<double> ms = Each(contender, samples->burst, stage, samples);
  if (ms) samples->burst_ms.push_back(*ms);
}

Timing ToTiming(const Samples& samples) {
  Timing timing;
  timing.error = samples.error;
  if (!timing.error.empty()) return timing;
  timing.sustained_ms = Summarize(samples.sustained_ms);
  timing.burst_ms = Summarize(samples.burst_ms);
  if (!samples.sm_mhz.empty()) {
    timing.sm_mhz = Median(samples.sm_mhz);
    timing.watts = Median(samples.watts);
  }
  return timing;
}

}  // namespace

int LaunchesFor(double milliseconds, double milliseconds_each) {
  const double count = std::round(milliseconds / std::max(milliseconds_each, 1e-6));
  return static_cast<int>(std::clamp(count, 2.0, static_cast<double>(kMostLaunches)));
}

std::vector<Timing> TimeAll(int count, const Protocol& protocol, std::mt19937_64* order,
                            Stage* stage) {
  std::vector<Samples> samples(static_cast<std::size_t>(count));
  std::vector<int> turn(static_cast<std::size_t>(count));
  std::iota(turn.begin(), turn.end(), 0);
  const auto each_in_random_order = [&](const auto& measure) {
    std::shuffle(turn.begin(), turn.end(), *order);
    for (const int contender : turn) {
      Samples& own = samples[static_cast<std::size_t>(contender)];
      if (own.error.empty()) measure(contender, &own);
    }
  };
  each_in_random_order(
      [&](int contender, Samples* own) { Prepare(contender, protocol, stage, own); });
  for (int round = 0; round < protocol.rounds; ++round) {
    each_in_random_order([&](int contender, Samples* own) { Sustain(contender, stage, own); });
  }
  for (int round = 0; round < protocol.rounds; ++round) {
    each_in_random_order(
        [&](int contender, Samples* own) { Burst(contender, protocol, stage, own); });
  }
  std::vector<Timing> timings;
  timings.reserve(samples.size());
  for (const Samples& own : samples) timings.push_back(ToTiming(own));
  return timings;
}

std::vector<SearchResult> Search(int count, double flops, Stage* stage) {
  constexpr int kRepeats = 5;
  constexpr int kWarmLaunches = 3;
  constexpr double kSeconds = 0.02;
  const double expected_seconds = flops / 6e14 + 4e-6;
  const int launches = static_cast<int>(std::clamp(kSeconds / expected_seconds, 4.0, 100.0));
  std::vector<SearchResult> results(static_cast<std::size_t>(count));
  for (int contender = 0; contender < count; ++contender) {
    SearchResult& result = results[static_cast<std::size_t>(contender)];
    std::vector<double> repeats;
    for (int repeat = -1; repeat < kRepeats && result.error.empty(); ++repeat) {
      const bool is_warm_up = repeat < 0;
      const absl::StatusOr<double> ms =
          stage->TimeOneByOne(contender, is_warm_up ? kWarmLaunches : launches);
      if (!ms.ok()) result.error = std::string(ms.status().message());
      if (ms.ok() && !is_warm_up) repeats.push_back(*ms / launches);
    }
    if (result.error.empty()) result.median_ms = Median(repeats);
  }
  return results;
}

std::vector<int> Quickest(const std::vector<SearchResult>& results, int limit) {
  std::vector<int> indices;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].error.empty()) indices.push_back(static_cast<int>(i));
  }
  std::stable_sort(indices.begin(), indices.end(), [&results](int x, int y) {
    return results[static_cast<std::size_t>(x)].median_ms <
           results[static_cast<std::size_t>(y)].median_ms;
  });
  if (indices.size() > static_cast<std::size_t>(limit)) {
    indices.resize(static_cast<std::size_t>(limit));
  }
  return indices;
}

}  // namespace gemmd::bench
