// `gemm bench --against`: servers that take turns at the same loads, and how they differ.
#pragma once

#include "client/cli/bench/bench_options.h"
#include "client/cli/bench/bench_progress.h"
#include "client/cli/bench/bench_record.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/load/report/report.h"

namespace gemmd::cli {

// Adds a point for each load and server, and a comparison of --server with each other one. The
// order of the servers is reversed in each second round, so that a machine that grows slower or
// quicker favours none of them.
Outcome MeasureByTurns(const GlobalOptions& global, const BenchArguments& arguments,
                       BenchProgress& progress, BenchRecord& record, load::Json& report);

}  // namespace gemmd::cli
