// The figures of a load that people set limits for and compare: one table for objectives,
// conditions, comparisons and their intervals.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gemmd::load {

enum class FigureKind {
  kRate,   // so many a second
  kTime,   // a latency in microseconds
  kShare,  // 0 to 1
};

struct Figure {
  absl::string_view name;     // as people write it: "p99"
  absl::string_view title;    // of a table's row: "p99 ms"
  absl::string_view pointer;  // where a point of a report has it; empty: computed
  FigureKind kind;
  double percentile;  // of a time that is one, else below 0

  bool more_is_better() const { return kind == FigureKind::kRate; }
  // The title's unit in one of the value's: ms, or percent.
  double scale() const;
  // One request decides it, so that two runs of the same never agree on it.
  bool is_one_request() const { return percentile == 100; }
};

absl::Span<const Figure> Figures();

// Null where there is none of that name.
const Figure* FindFigure(absl::string_view name);

// "throughput, mean, p50, ...": all names.
std::string FigureNames();

// The value with its unit: "12.5 ms", "3.1%", "1000.0/s".
std::string FigureText(const Figure& figure, double value);

}  // namespace gemmd::load
