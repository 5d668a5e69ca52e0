// What a launch will take of one device: the roofline of its plan and of the copies, corrected
// by what launches like it took.
//
// Launches are alike that share kernel, config, types, layouts, N, K, the parts of the epilogue
// and the power of two that M lies under: the prediction itself follows M within these. Where
// none like it has run, the kernel's ratio of measured to predicted serves, and where the kernel
// has not run, the device's. Copies are alike by direction and by the power of two of their
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernels/gemm.h"
#include "server/cost/ratio_table.h"
#include "server/device/device.h"
#include "server/observe/receipt.h"
#include "sync/adaptive_mutex.h"

namespace gemmd {

// Predicted times of one launch; all zero: of none.
struct Cost {
  double copy_in_us = 0;
  double compute_us = 0;
  double copy_out_us = 0;
  // What the device is held for: the largest of the three where they overlap, with each other
  // or with a neighbour's; their sum where one follows the other.
  double device_us = 0;

  // What Observe() needs: the same without corrections, and where these are kept.
  struct Basis {
    double copy_in_us = 0;
    double compute_us = 0;
    double copy_out_us = 0;
    std::uint64_t plan_key = 0;
    std::uint64_t kernel_key = 0;
    std::uint64_t copy_in_key = 0;
    std::uint64_t copy_out_key = 0;
    bool overlaps = false;
  } basis;
};

// Bytes that a launch moves between host and device.
struct Transfers {
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
};
Transfers TransfersOf(const Problem& problem, const Residency& resident);
// Operands and results in the device's own memory do not move.
Transfers TransfersOf(const DeviceWork& work);

// What copies take before any was measured.
struct CopyRates {
  double in_gbps = 0;  // GB/s; 0: works read and write host memory in place
  double out_gbps = 0;
  double latency_us = 0;  // of each
  // Launches that move no more than this are one sequence of copy, kernel, copy.
  std::uint64_t sequential_bytes = 0;
};
// Of a device's kind. 55 GB/s each way for a GPU, which is PCIe 5 with 16 lanes.
CopyRates CopyRatesOf(const Device& device);

// Predicted against measured, over the launches that were observed.
struct CostAccuracy {
  struct Part {
    std::uint64_t count = 0;
    double predicted_us = 0;
    double measured_us = 0;
    double absolute_relative_errors = 0;  // sum of |predicted - measured| / measured

    double mean_absolute_relative_error() const {
      return count == 0 ? 0 : absolute_relative_errors / static_cast<double>(count);
    }
  };
  Part device;  // Cost::device_us
  Part copy_in;
  Part compute;
  Part copy_out;
};

// Of one device. Thread-safe: predicting takes a few locks for a few nanoseconds each, and no
// memory.
class CostModel {
 public:
  // As many ratios are remembered, those that were not used for longest forgotten.
  static constexpr std::size_t kCapacity = 8192;

  explicit CostModel(const CopyRates& rates, std::size_t capacity = kCapacity)
      : rates_(rates), ratios_(capacity) {}

  // Of a problem as it is sent, and the plan for it landed. For a launch of several works'
  // rows, the problem that has all of them.
  Cost Predict(const Problem& problem, const Plan& plan, const Residency& resident) const {
    return Predict(problem, plan, TransfersOf(problem, resident));
  }
  Cost Predict(const DeviceWork& work) const {
    return Predict(work.problem, work.plan, TransfersOf(work));
  }
  Cost Predict(const Problem& problem, const Plan& plan, const Transfers& transfers) const;

  // Learns from a launch that succeeded; `spans` are the device's of the whole launch, others
  // count for nothing. The error that is reported is that of `predicted` as it is given.
  void Observe(const Cost& predicted, const std::vector<StageSpan>& spans);

  CostAccuracy accuracy() const;

 private:
  double CopyUs(double gbps, std::uint64_t bytes) const;
  double Correct(double basis_us, std::uint64_t key, std::uint64_t general_key,
                 std::uint64_t most_general_key) const;

  const CopyRates rates_;
  RatioTable ratios_;
  mutable AdaptiveMutex mutex_;
  CostAccuracy accuracy_;  // guarded by mutex_
};

}  // namespace gemmd
