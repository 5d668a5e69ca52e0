// The measurements of one `gemm bench`: points of a sweep or a search, then the ceiling.
#pragma once

#include "client/cli/bench/bench_options.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/load/report/report.h"

namespace gemmd::cli {

// Fills `report` (client/load/report/report.h). An interrupt (SIGINT) ends the measurement and
// keeps what there is; a second one ends the process. WasInterrupted() (bench_target.h) tells.
Outcome MeasureAll(const GlobalOptions& global, const BenchArguments& arguments,
                   load::Json& report);

}  // namespace gemmd::cli
