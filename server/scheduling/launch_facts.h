// The facts that a launch adds to the receipt of each of its jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "server/observe/energy_meter.h"
#include "server/observe/receipt.h"
#include "server/scheduling/job.h"

namespace gemmd {

// Immutable, so that the jobs of one launch may be told by several threads.
class LaunchFacts {
 public:
  static constexpr int kAhead = -1;

  // `slice`: the launch's number among its work's, from 0 on; kAhead: it went ahead of them.
  // `rows_plan`: the plan of jobs that went as rows of one product; null: they did not. `spans` and
  // `copied`: the device's. `energy` is told of the launch, and asked what it drew; null: nobody
  // knows.
  LaunchFacts(const std::vector<Job*>& jobs, int slice, const Plan* rows_plan,
              std::vector<StageSpan> spans, const CopiedBytes& copied, EnergyMeter* energy);

  // `queue_span`: the receipt's span of waiting for the device. `ran_until`: the end of the
  // work's launch before this one, if there was one.
  void Record(std::size_t queue_span, TimeNs ran_until, Receipt* receipt) const;

  // The end of the last span; 0 if there are none.
  TimeNs end() const { return end_; }

 private:
  const std::vector<StageSpan> spans_;
  const CopiedBytes copied_;
  const int slice_;
  const std::size_t jobs_;
  const std::uint64_t launch_;
  std::uint64_t rows_ = 0;
  double flops_ = 0;
  std::optional<double> joules_;
  TimeNs start_ = 0;
  TimeNs end_ = 0;
  std::optional<Plan> plan_;  // of rows
  std::string config_;
};

}  // namespace gemmd
