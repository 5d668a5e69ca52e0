// `gemm bench --against`, or several protocols: sides that take turns at the same loads, and how
// they differ.
#pragma once

#include "client/cli/bench/bench_options.h"
#include "client/cli/bench/bench_progress.h"
#include "client/cli/bench/bench_record.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/load/report/report.h"

namespace gemmd::cli {

// Adds a point for each load and side, and a comparison of the first, --server by the first
// protocol, with each other one. Their order is reversed in each second round, so that a machine
// that grows slower or quicker favours none of them.
Outcome MeasureByTurns(const GlobalOptions& global, const BenchArguments& arguments,
                       BenchProgress& progress, BenchRecord& record, load::Json& report);

}  // namespace gemmd::cli
