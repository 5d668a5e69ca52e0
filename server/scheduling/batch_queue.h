// Which jobs wait, and which of them the next launch serves. A pure data structure: no
// clock, no locks, no device.
//
// First policy: first come, first served, and a batch is one job. Priorities are
// carried and not yet obeyed.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "server/scheduling/job.h"

namespace gemmd {

// Jobs that one launch serves; never empty when popped.
using Batch = std::vector<std::unique_ptr<Job>>;

// Not thread-safe.
class BatchQueue {
 public:
  void Push(std::unique_ptr<Job> job);

  // REQUIRES: !empty().
  Batch Pop();

  // Takes the job of that id out, or returns null.
  std::unique_ptr<Job> Remove(std::uint64_t id);

  // Takes out every job whose deadline is at or before `now`.
  std::vector<std::unique_ptr<Job>> RemoveExpired(TimeNs now);

  bool empty() const { return jobs_.empty(); }
  std::size_t size() const { return jobs_.size(); }

  // Sum of the jobs' predicted times.
  double predicted_us() const { return predicted_us_; }

 private:
  using Iterator = std::deque<std::unique_ptr<Job>>::iterator;
  std::unique_ptr<Job> Take(const Iterator& position);

  std::deque<std::unique_ptr<Job>> jobs_;
  double predicted_us_ = 0;
};

}  // namespace gemmd
