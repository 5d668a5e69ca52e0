// The files that `gemm bench` writes of each load while it measures: --samples and --histogram.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cli/bench/bench_options.h"
#include "client/cli/bench/bench_target.h"
#include "client/cli/failure.h"
#include "client/load/report/report.h"
#include "client/load/results/sample_file.h"

namespace gemmd::cli {

class BenchRecord {
 public:
  // Opens and checks the files that were asked for; `arguments` must outlive this.
  Outcome Open(const BenchArguments& arguments);

  // Writes the load's files, and adds its point to the report.
  Outcome Keep(const BenchTarget& target, Measured measured, load::Json& report);

 private:
  std::string histogram_;
  bool has_points_ = false;
  std::unique_ptr<load::SampleFile> samples_;
};

}  // namespace gemmd::cli
