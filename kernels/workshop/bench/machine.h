// The interface to the GPU that the benchmark runs on: memory, launches, checks and clocks. Tests
// implement it too.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cublaslt/cublaslt_call.h"
#include "kernels/kernel.h"
#include "kernels/workshop/bench/options.h"
#include "kernels/workshop/bench/protocol.h"

namespace gemmd::bench {

struct MachineInfo {
  DeviceTraits traits;
  std::string driver;
  std::string runtime;
  std::string vendor_library;  // version, or why it is not here
  std::string telemetry;       // what tells clocks and power, or why nothing does
  double power_limit_watts = 0;
  double highest_sm_mhz = 0;
};

// The highest rates of this machine, measured by kernels of ours in the same run.
struct Peaks {
  double read_gbps = 0;
  // TFLOP/s of f16 or bf16 operands; 0 where the device has no such instruction.
  double mma_sustained = 0;
  double mma_burst = 0;
  double wgmma_sustained = 0;
  double wgmma_burst = 0;

  double sustained() const {
    return mma_sustained > wgmma_sustained ? mma_sustained : wgmma_sustained;
  }
  double burst() const { return mma_burst > wgmma_burst ? mma_burst : wgmma_burst; }
};

// The errors of a contender's result.
struct Checked {
  double error_over_bound = 0;    // worst of the sampled elements, against binary64
  double largest_difference = 0;  // from the reference contender, over all elements
  std::int64_t different = 0;     // elements beyond LooseLimit(), or NaN
};

// Not thread-safe. A status other than OK from Time() or Check() concerns the contender alone.
class Machine : public Stage {
 public:
  virtual const MachineInfo& info() const = 0;

  virtual absl::StatusOr<Peaks> MeasurePeaks(bool is_bf16, const Protocol& protocol) = 0;

  // Fills operands for the problem, as many sets as make every launch miss the L2 cache, and
  // forgets the contenders and operands before. RESOURCE_EXHAUSTED: they do not fit.
  virtual absl::Status Load(const Problem& problem) = 0;

  // Adds each of the vendor's algorithms (16 asked) as a contender, whose launches take turns on
  // `streams`, and returns how many there are.
  virtual absl::StatusOr<int> AddRivals(cublaslt::Arithmetic arithmetic, int streams) = 0;

  // Adds one contender and returns its number. REQUIRES: the kernel takes the problem.
  virtual absl::StatusOr<int> Add(const Kernel& kernel, const Config& config, Settled settled) = 0;

  // Runs the contender once into a poisoned D and compares: sampled elements with binary64, and
  // where `reference` is not negative all elements with what that contender computed.
  virtual absl::StatusOr<Checked> Check(int contender, int reference) = 0;
};

}  // namespace gemmd::bench
