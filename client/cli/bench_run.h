// The measurements of one `gemm bench`: points of a sweep or a search, then the ceiling.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cli/bench_options.h"
#include "client/cli/bench_progress.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/load/report.h"

namespace gemmd::cli {

// Fills `report` (client/load/report.h). An interrupt (SIGINT) ends the measurement and
// keeps what there is; a second one ends the process.
Outcome MeasureAll(const GlobalOptions& global, const BenchArguments& arguments,
                   load::Json& report);

// Returns whether one came while MeasureAll() measured.
bool WasInterrupted();

}  // namespace gemmd::cli
