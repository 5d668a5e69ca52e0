// Counts of a scheduler's work so far, and of what it holds now.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "kernels/gemm.h"
#include "server/device/launch.h"
#include "server/scheduling/queue_bounds.h"

namespace gemmd {

struct SchedulerStatistics {
  struct Launches {
    std::uint64_t launches = 0;
    std::uint64_t jobs = 0;  // that they served; one in slices is in several launches
  };
  const Launches& of(BatchForm form) const { return launches[static_cast<std::size_t>(form)]; }

  // A histogram of numbers from 1 on: how many were at most 1, 2, 4 and so on, each bucket by
  // itself, and how many were over the last.
  struct Sizes {
    static constexpr std::size_t kBounds = 17;  // up to 65536
    void Add(std::uint64_t size) {
      std::size_t bucket = 0;
      while (bucket < kBounds && size > std::uint64_t{1} << bucket) ++bucket;
      ++counts[bucket];
      sum += size;
    }
    std::array<std::uint64_t, kBounds + 1> counts{};
    std::uint64_t sum = 0;
  };

  // Kernels with counts of their own; the registry has fewer, unless somebody adds many.
  static constexpr std::size_t kKernels = 64;
  using KernelLaunches = std::array<std::uint64_t, kBatchFormCount>;  // by form

  std::uint64_t requests = 0;                      // of clients, that Submit() took
  std::array<Launches, kBatchFormCount> launches;  // begun
  // Launches begun, by kernel; null: those of all kernels that found no room here.
  absl::flat_hash_map<const Kernel*, KernelLaunches> by_kernel;
  Sizes batch_requests;  // of each launch, slices but for the first left out
  Sizes batch_rows;      // of all their results together
  // Jobs that ended with DEADLINE_EXCEEDED: before the device had anything of them, and after.
  std::uint64_t late_in_queue = 0;
  std::uint64_t late_on_device = 0;
  QueueUse queued;
  double backlog_us = 0;      // predicted time until all that was submitted is done
  double queue_limit_us = 0;  // what `queued` may be predicted to take (AdaptiveLimit)
};

}  // namespace gemmd
