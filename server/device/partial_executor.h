// A kernel's launch on the CPU in parts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/gemm.h"

namespace gemmd {

// Carries out a part of the loops that each launch of a kernel gives it, all launches having the
// same arguments. So the parts have the bits of the whole whatever the kernel, and what it packs or
// decodes is made once: parts are of the units that it computes anyway.
//
// It asks of the kernel that it computes in its executor's loops alone, that an index leaves
// nothing to another but in the workspace, and that all loops but the last make ready what the last
// one reads. One thread begins parts and launches; the loops run where `executor` has them.
class PartialExecutor final : public ParallelExecutor {
 public:
  static constexpr int kMostParts = 1 << 20;

  // Cuts the last loop into so many parts, or fewer where each worker would not have an index of
  // each. REQUIRES: 1 <= parts <= kMostParts.
  PartialExecutor(int parts, ParallelExecutor* executor) : parts_(parts), executor_(executor) {}

  // The next launch carries out the part `first`, and goes on with others before `end` until
  // `is_over` is true; null: to the end. REQUIRES: 0 <= first < end <= parts, and all parts before
  // `first` are done.
  void Begin(int first, int end, const std::atomic<bool>* is_over);

  // The parts that are done since the last launch, from 0 on: more than its first, and all of them
  // as soon as no index is left. One whose turn was over in a loop before the last has left its own
  // indices to the next.
  int parts_done() const;

  void Run(std::int64_t count,
           absl::FunctionRef<void(int worker, std::int64_t index)> body) override;
  int workers() const override { return executor_->workers(); }

 private:
  struct Loop {
    std::int64_t count = 0;
    std::int64_t done = 0;  // the first so many indices
  };

  // Where parts end in the last loop.
  std::int64_t EndOf(int parts, std::int64_t count) const;

  const int parts_;
  ParallelExecutor* const executor_;
  std::vector<Loop> loops_;  // of the kernel's launch, in its order
  // The launch under way, as Begin() said, and its place.
  int first_ = 0;
  int end_ = 0;
  const std::atomic<bool>* is_over_ = nullptr;
  std::size_t next_loop_ = 0;
  bool has_stopped_ = false;  // indices of a loop are left
};

}  // namespace gemmd
