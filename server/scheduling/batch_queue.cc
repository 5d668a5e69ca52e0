#include "server/scheduling/batch_queue.h"

#include <algorithm>
#include <utility>

namespace gemmd {

void BatchQueue::Push(std::unique_ptr<Job> job) {
  predicted_us_ += job->work.plan.predicted_us;
  jobs_.push_back(std::move(job));
}

Batch BatchQueue::Pop() {
  Batch batch;
  batch.push_back(Take(jobs_.begin()));
  return batch;
}

std::unique_ptr<Job> BatchQueue::Remove(std::uint64_t id) {
  const auto position =
      std::find_if(jobs_.begin(), jobs_.end(), [id](const auto& job) { return job->id == id; });
  return position == jobs_.end() ? nullptr : Take(position);
}

std::vector<std::unique_ptr<Job>> BatchQueue::RemoveExpired(TimeNs now) {
  const auto first_expired = std::stable_partition(
      jobs_.begin(), jobs_.end(), [now](const auto& job) { return job->deadline > now; });
  std::vector<std::unique_ptr<Job>> expired(std::make_move_iterator(first_expired),
                                            std::make_move_iterator(jobs_.end()));
  jobs_.erase(first_expired, jobs_.end());
  for (const auto& job : expired) predicted_us_ -= job->work.plan.predicted_us;
  return expired;
}

std::unique_ptr<Job> BatchQueue::Take(const Iterator& position) {
  std::unique_ptr<Job> job = std::move(*position);
  jobs_.erase(position);
  // An empty queue has exactly no predicted time, whatever rounding left.
  predicted_us_ = jobs_.empty() ? 0 : predicted_us_ - job->work.plan.predicted_us;
  return job;
}

}  // namespace gemmd
