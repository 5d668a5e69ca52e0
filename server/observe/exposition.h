// Metrics in the text forms that Prometheus reads: its own, 0.0.4, and OpenMetrics 1.0.
//   https://prometheus.io/docs/instrumenting/exposition_formats/
//   https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace gemmd {

enum class ExpositionForm : std::uint8_t { kPrometheus, kOpenMetrics };

absl::string_view ContentType(ExpositionForm form);

enum class MetricType : std::uint8_t { kCounter, kGauge, kHistogram, kInfo };

// Name and value. Values may be any bytes: what is not UTF-8 is written as U+FFFD.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// One observation as an example. Only OpenMetrics has them.
struct Exemplar {
  MetricLabels labels;  // left out whole where they have more than 128 characters, as it demands
  double value = 0;
};

// Histograms alone.
struct MetricBuckets {
  std::vector<double> bounds;         // ascending, finite: the greatest value of each bucket
  std::vector<std::uint64_t> counts;  // of each bucket by itself, and of what is over the last
  double sum = 0;
  std::vector<std::optional<Exemplar>> exemplars;  // of each bucket, or empty
};

struct MetricSample {
  MetricLabels labels;
  double value = 0;       // of counters and gauges
  MetricBuckets buckets;  // of histograms
};

// Metrics of one name.
struct MetricFamily {
  // Ends with the unit, where it has one, and never with _total or _info, which are added.
  std::string name;
  MetricType type = MetricType::kGauge;
  std::string unit;  // "seconds", "bytes"; empty: a count
  std::string help;
  std::vector<MetricSample> samples;  // one for each set of labels

  void Add(MetricLabels labels, double value) { samples.push_back({std::move(labels), value, {}}); }
};

// The page. Families without samples are left out. REQUIRES: names are valid and as MetricFamily
// has them, and no name stands twice.
std::string WriteExposition(const std::vector<MetricFamily>& families, ExpositionForm form);

// The number as both forms write it: the shortest text that reads back the same.
std::string MetricNumber(double value);

}  // namespace gemmd
