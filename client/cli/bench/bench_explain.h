// The kernels and plans that a server would choose for a workload, without any load.
#pragma once

#include "client/cli/bench/bench_options.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"

namespace gemmd::cli {

// Prints kernel, plan and predicted time for each kind of request: a table, or JSON.
Outcome ExplainBench(const GlobalOptions& global, const BenchArguments& arguments);

}  // namespace gemmd::cli
