// A bench report: one JSON document, from which the table, CSV, HTML and comparisons are
// made. The fields are a contract: they are added, never changed.
//
//     {"format": "gemm-bench", "format_version": 1, "command": ..., "time": ...,
//      "machine": {...}, "server": {...}, "workload": [...], "options": {...},
//      "points": [...], "ceiling": {...}, "search": {...}, "comparisons": [...],
//      "failed": [...], "error": {...}}
//
// A point is one load: its figures, distribution, course and warnings. Times have their
// unit in their name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/load_generator.h"
#include "client/load/results/figures.h"
#include "client/load/results/findings.h"
#include "client/load/results/resample.h"
#include "client/load/results/summary.h"
#include "nlohmann/json.hpp"

namespace gemmd::load {

using Json = nlohmann::ordered_json;

inline constexpr char kReportFormat[] = "gemm-bench";
inline constexpr int kReportVersion = 1;

Json PointJson(const LoadOptions& options, const LoadRun& run, const Summary& summary,
               const Findings& findings, const std::vector<std::string>& entry_names,
               const Resamples& resamples = {});

// Warnings that a reader needs before trusting a point: the client was the bottleneck, the run was
// not stable, too few samples for a percentile, ...
std::vector<std::string> Warnings(const LoadOptions& options, const LoadRun& run,
                                  const Summary& summary, const Findings& findings);

// INVALID_ARGUMENT where the text is no report of this version, or lacks what every
// report has.
absl::StatusOr<Json> ParseReport(const std::string& text);

// "concurrency 8", "poisson 1000/s", "concurrency 8 on host:50051" where servers took turns.
std::string LoadName(const Json& point);

// The value of a point, in the figure's own unit; none in reports that are older than the figure.
std::optional<double> ValueOf(const Figure& figure, const Json& point);

// A line a point, a header first; latencies in microseconds.
std::string CsvReport(const Json& report);

}  // namespace gemmd::load
