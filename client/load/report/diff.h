// Two points, or two reports, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/load/report/report.h"
#include "client/load/results/figures.h"

namespace gemmd::load {

struct Interval {
  double low = 0;
  double high = 0;
};

struct Change {
  std::string load;  // LoadName of the points compared
  const Figure* figure = nullptr;
  double before = 0;  // in the figure's own unit, as `after`
  double after = 0;
  // The 95 % interval of size(), by the resamples of both; none where a report has none.
  std::optional<Interval> interval;

  // after / before - 1; 0 where both are 0, 1 where only before is.
  double relative() const;
  // relative(), or the difference of two shares.
  double size() const;
  // "+12.0%", "+1.20 points".
  std::string text() const;
  // The interval covers zero: the runs differ no more than each of them varied.
  bool is_hidden() const;
  // Beyond `threshold` in the bad direction. Never where a single request decides, or is_hidden().
  bool worse(double threshold) const;
  bool better(double threshold) const;
  // "worse", "better", "no difference shown" or nothing.
  std::string verdict(double threshold) const;
};

// "+1.0% to +3.0%"; empty where there is none.
std::string IntervalText(const Change& change);

// `paired`: the points took turns, so that resamples of one number drew the same turns.
std::vector<Change> ComparePoints(const Json& before, const Json& after, bool paired);

// For reports and for --json. The change and its interval are text beside numbers.
Json ChangesJson(const std::vector<Change>& changes, double threshold = 0);

struct ReportDiff {
  std::vector<Change> changes;
  std::vector<std::string> only_before;  // loads
  std::vector<std::string> only_after;
  std::vector<std::string> warnings;  // of both reports
};

// Points with the same load are compared, in the order of `before`. REQUIRES: both come
// from ParseReport.
ReportDiff DiffReports(const Json& before, const Json& after);

}  // namespace gemmd::load
