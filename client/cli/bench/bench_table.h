// A bench report, and the difference of two, as people read them in a terminal.
#pragma once

#include <string>

#include "client/load/report/diff.h"
#include "client/load/report/report.h"

namespace gemmd::cli {

// A row a point; then stages, batch sizes, errors, ceiling, search and warnings, as far as
// there are any.
std::string BenchTable(const load::Json& report);

// Marks what changed by more than `threshold` (0.05 is 5 %), as far as the intervals show it.
// Repeats both reports' warnings.
std::string DiffTable(const load::ReportDiff& diff, double threshold);

}  // namespace gemmd::cli
