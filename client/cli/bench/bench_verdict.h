// The exit code of a measurement that was made: what fails a job.
#pragma once

#include <vector>

#include "client/cli/bench/bench_options.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/load/report/conditions.h"
#include "client/load/report/diff.h"
#include "client/load/report/report.h"

namespace gemmd::cli {

// A job fails for wrong products, a load of which nothing was answered, too many failed requests,
// an objective that is not met, or a condition that holds. Every reason goes to report["failed"];
// the first is the command's. A search is judged by the highest rate that held, because the others
// are beyond it.
Outcome JudgeBench(const GlobalOptions& global, const BenchArguments& arguments,
                   const std::vector<load::Condition>& conditions, load::Json& report);

// Without conditions everything that is worse beyond the threshold fails. Every reason goes to
// document["failed"]; the first is the command's.
Outcome JudgeDiff(const load::ReportDiff& diff, const std::vector<load::Condition>& conditions,
                  double threshold, load::Json& document);

}  // namespace gemmd::cli
