// What a scheduler has done so far, and holds now.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "server/device/launch.h"
#include "server/scheduling/queue_bounds.h"

namespace gemmd {

struct SchedulerStatistics {
  struct Launches {
    std::uint64_t launches = 0;
    std::uint64_t jobs = 0;  // that they served; one in slices is in several launches
  };
  const Launches& of(BatchForm form) const { return launches[static_cast<std::size_t>(form)]; }

  std::array<Launches, kBatchFormCount> launches;  // begun
  // Jobs that ended with DEADLINE_EXCEEDED: before the device had anything of them, and after.
  std::uint64_t late_in_queue = 0;
  std::uint64_t late_on_device = 0;
  QueueUse queued;
  double backlog_us = 0;      // predicted time until all that was submitted is done
  double queue_limit_us = 0;  // what `queued` may be predicted to take (AdaptiveLimit)
};

}  // namespace gemmd
