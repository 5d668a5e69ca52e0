// A problem's operands on the GPU, in as many sets as make launches in turn miss the L2 cache, and
// checks of what contenders make of them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/workshop/bench/bench_work.h"
#include "kernels/workshop/bench/gpu/gpu_memory.h"
#include "kernels/workshop/bench/gpu/gpu_queue.h"
#include "kernels/workshop/bench/machine.h"

namespace gemmd::bench {

// Returns the number of sets: as many as have 200 MB together, rounded up to a power of two from 2
// to 64.
int OperandSets(std::uint64_t bytes_of_one);

class GpuOperands {
 public:
  // Allocates and fills. RESOURCE_EXHAUSTED: they do not fit.
  static absl::StatusOr<std::unique_ptr<GpuOperands>> Make(const Problem& problem, GpuQueue* queue);

  const Problem& problem() const { return problem_; }

  // Returns the arguments of the set that `turn` takes; their workspace is null.
  Arguments arguments(int turn) const;

  // Checks as Machine::Check() does; `reference` may be null.
  absl::StatusOr<Checked> Check(const QueueOne& contender, const QueueOne* reference);

 private:
  struct Set {
    DeviceMemory a;
    DeviceMemory b;
    DeviceMemory d;
    DeviceMemory a_scales;  // null where there are none
    DeviceMemory b_scales;
  };

  GpuOperands(const Problem& problem, GpuQueue* queue) : problem_(problem), queue_(*queue) {}
  absl::Status Fill(void* data, std::uint64_t bytes, DataType type, std::uint64_t seed);
  absl::Status RunPoisoned(const QueueOne& contender);
  absl::StatusOr<double> SampledError() const;
  absl::Status CompareWithReference(Checked* checked);

  const Problem problem_;
  GpuQueue& queue_;
  std::vector<Set> sets_;
  DeviceMemory reference_d_;  // what the last reference computed
  const QueueOne* computed_by_ = nullptr;
  DeviceMemory differences_;
};

}  // namespace gemmd::bench
