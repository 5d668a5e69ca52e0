#include "client/load/results/percentile_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/load/percentile.h"
#include "client/load/results/turns.h"

namespace gemmd::load {
namespace {

constexpr double kTicks = 5;  // HdrHistogram's default

double Ms(TimeNs value) { return static_cast<double>(value) / 1e6; }

// The next percentile to print: kTicks steps are half of what is left to 100.
double After(double percent) {
  const double halvings = std::floor(std::log2(100 / (100 - percent))) + 1;
  return percent + 100 / (kTicks * std::exp2(halvings));
}

std::string Totals(const std::vector<TimeNs>& sorted) {
  double sum = 0;
  for (const TimeNs value : sorted) sum += Ms(value);
  const double count = std::max(1.0, static_cast<double>(sorted.size()));
  double squares = 0;
  for (const TimeNs value : sorted) squares += std::pow(Ms(value) - sum / count, 2);
  return absl::StrFormat(
      "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n"
      "#[Max     = %12.3f, Total count    = %12d]\n",
      sum / count, std::sqrt(squares / count), sorted.empty() ? 0 : Ms(sorted.back()),
      sorted.size());
}

}  // namespace

std::vector<TimeNs> SortedLatencies(const LoadRun& run) {
  std::vector<TimeNs> latencies;
  const std::vector<Turn> turns = TurnsOf(run);
  for (const Sample& sample : run.samples) {
    if (FindTurn(turns, sample.intended_ns) == turns.size()) continue;
    if (sample.ok() || sample.code == kNotSent) latencies.push_back(sample.latency_ns());
  }
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

std::string PercentileText(const std::vector<TimeNs>& sorted) {
  std::string text = absl::StrFormat("%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
                                     "1/(1-Percentile)");
  const auto count_to = [&sorted](TimeNs value) {
    return std::upper_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
  };
  double percent = 0;
  while (!sorted.empty()) {
    const TimeNs value = PercentileOf(sorted, percent);
    if (value == sorted.back()) break;
    absl::StrAppendFormat(&text, "%12.3f %2.12f %10d %14.2f\n", Ms(value), percent / 100,
                          count_to(value), 100 / (100 - percent));
    percent = After(percent);
  }
  if (!sorted.empty()) {
    absl::StrAppendFormat(&text, "%12.3f %2.12f %10d\n", Ms(sorted.back()), 1.0, sorted.size());
  }
  return text + Totals(sorted);
}

}  // namespace gemmd::load
