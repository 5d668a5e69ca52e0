// Predicts the time that a launch takes of one device: the roofline of its plan and of the copies,
// corrected by the times of launches like it.
//
// Launches are alike that share kernel, config, types, layouts, N, K, the parts of the epilogue
// and the power of two that M lies under: they share a ratio of measured to predicted, since the
// prediction itself follows M within these. If none like it has run, the kernel's times at other
// sizes serve (TimeCurve), and if it ran at none near this one, the device's. Copies are a function
// of their bytes, by direction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/sync/mutex.h"
#include "kernels/gemm.h"
#include "server/cost/ratio_table.h"
#include "server/cost/time_curve.h"
#include "server/device/device.h"
#include "server/observe/receipt.h"

namespace gemmd {

// Predicted times of one launch; all zero: of none.
struct Cost {
  double copy_in_us = 0;
  double compute_us = 0;
  double copy_out_us = 0;
  // The time that the device is held: the largest of the three where they overlap, with each other
  // or with a neighbour's; their sum where one follows the other.
  double device_us = 0;
  // A lower bound of device_us: launches like this one, or of the same kernel at about this size,
  // rarely took less. 0 where fewer than three of them were measured. Deadlines are refused by
  // this and not by device_us, which may be a guess.
  double least_us = 0;

  // The input of Observe(): the same without corrections, and where these are kept.
  struct Basis {
    double copy_in_us = 0;
    double compute_us = 0;
    double copy_out_us = 0;
    std::uint64_t plan_key = 0;
    const Kernel* kernel = nullptr;
    bool overlaps = false;
  } basis;
};

// Bytes that a launch moves between host and device.
struct Transfers {
  std::uint64_t in_bytes = 0;
  std::uint64_t out_bytes = 0;
};
Transfers TransfersOf(const Problem& problem, const Residency& resident, const Stack& stack = {});
// Operands and results in the device's own memory do not move.
Transfers TransfersOf(const DeviceWork& work);

// Rates of copies before any was measured.
struct CopyRates {
  double in_gbps = 0;  // GB/s; 0: works read and write host memory in place
  double out_gbps = 0;
  double latency_us = 0;  // of each
  // Launches that move no more than this are one sequence of copy, kernel, copy.
  std::uint64_t sequential_bytes = 0;
};
// The rates of a device's kind. 55 GB/s each way for a GPU, which is PCIe 5 with 16 lanes.
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

// The cost model of one device. Thread-safe: predicting takes a few locks for a few nanoseconds
// each, and no memory.
class CostModel {
 public:
  // The model remembers so many ratios and forgets those that were not used for longest; it also
  // keeps a curve for each kernel that ran.
  static constexpr std::size_t kCapacity = 8192;

  explicit CostModel(const CopyRates& rates, std::size_t capacity = kCapacity)
      : rates_(rates), ratios_(capacity) {}

  // Predicts the cost of a problem as it is sent, with the plan for it landed. For a launch of
  // several works' rows, the problem that has all of them; of a stack, one of its products, of
  // groups the one of all rows, and the plan's prediction is for all.
  Cost Predict(const Problem& problem, const Plan& plan, const Residency& resident,
               const Stack& stack = {}) const {
    return Predict(problem, plan, TransfersOf(problem, resident, stack), stack);
  }
  Cost Predict(const DeviceWork& work) const {
    return Predict(work.problem, work.plan, TransfersOf(work), work.stack);
  }
  Cost Predict(const Problem& problem, const Plan& plan, const Transfers& transfers,
               const Stack& stack = {}) const;

  // Predicts copies of so many bytes by themselves, onto the device and off it.
  double PredictCopyInUs(std::uint64_t bytes) const;
  double PredictCopyOutUs(std::uint64_t bytes) const;

  // Learns from a launch that succeeded; `spans` are the device's of the whole launch, others
  // count for nothing. The error that is reported is that of `predicted` as it is given.
  void Observe(const Cost& predicted, const std::vector<StageSpan>& spans);
  // Learns from `part` of a launch, in (0, 1), that was stopped at its deadline.
  void ObservePart(const Cost& predicted, const std::vector<StageSpan>& spans, double part);
  // A launch was refused because of its least_us. It is not measured then, so it lowers that bound
  // a little: after some refusals one launch is tried, and no history refuses for good.
  void ObserveRefusal(const Cost& predicted);

  CostAccuracy accuracy() const;

 private:
  struct Stages {
    double copy_in_us = 0;
    double compute_us = 0;
    double copy_out_us = 0;
  };

  static Stages StagesOf(const std::vector<StageSpan>& spans);
  double CopyUs(double gbps, std::uint64_t bytes) const;
  TimeCurve::Point Compute(const Cost::Basis& basis) const;
  void Learn(const Cost::Basis& basis, const Stages& measured);
  // Null: the kernel has not run.
  TimeCurve* FindCurve(const Kernel* kernel) const;
  TimeCurve& CurveOf(const Kernel* kernel);

  const CopyRates rates_;
  RatioTable ratios_;  // by Basis::plan_key
  TimeCurve device_curve_;
  TimeCurve copy_in_curve_;
  TimeCurve copy_out_curve_;
  mutable AdaptiveMutex mutex_;
  CostAccuracy accuracy_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Kernel*, std::unique_ptr<TimeCurve>> curves_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
