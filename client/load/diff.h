// Two reports side by side.
#pragma once

#include <string>
#include <vector>

#include "client/load/report.h"

namespace gemmd::load {

struct Change {
  std::string load;    // LoadName of the points compared
  std::string figure;  // "requests/s", "p99 ms", ...
  double before = 0;
  double after = 0;
  // after / before - 1; 0 where both are 0, 1 where only before is.
  double relative() const;
  bool more_is_better = false;
  // Beyond `threshold` in the bad direction.
  bool worse(double threshold) const;
  bool better(double threshold) const;
};

struct ReportDiff {
  std::vector<Change> changes;
  std::vector<std::string> only_before;  // loads
  std::vector<std::string> only_after;
};

// Points with the same load are compared, in the order of `before`. REQUIRES: both come
// from ParseReport.
ReportDiff DiffReports(const Json& before, const Json& after);

}  // namespace gemmd::load
