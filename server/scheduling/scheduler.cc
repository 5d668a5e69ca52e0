#include "server/scheduling/scheduler.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

DeviceWork WorkOf(const Batch& batch) { return batch.front()->work; }

}  // namespace

Scheduler::Scheduler(Device* device, const Clock* clock, const SchedulerOptions& options)
    : device_(device), clock_(clock), options_(options) {}

absl::Status Scheduler::Submit(std::unique_ptr<Job> job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (draining_) return absl::UnavailableError("the server is draining: use another replica");
    if (queue_.size() >= options_.max_queued_jobs) {
      return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", queue_.size(),
                                                       " requests wait, and ",
                                                       options_.max_queued_jobs, " may"));
    }
    job->receipt.spans.push_back({Stage::kQueue, clock_->Now(), 0});
    queue_.Push(std::move(job));
    ++unfinished_jobs_;
  }
  Dispatch();
  return absl::OkStatus();
}

void Scheduler::Cancel(std::uint64_t id) {
  std::vector<Finished> finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::unique_ptr<Job> job = queue_.Remove(id)) {
      finished.push_back(EndQueuedLocked(std::move(job)));
    } else {
      for (auto& [launch_id, launch] : launched_) {
        for (const auto& member : launch.batch) {
          if (member->id == id) launch.cancelled.insert(id);
        }
      }
    }
  }
  Deliver(std::move(finished));
}

void Scheduler::StartDraining() {
  const std::lock_guard<std::mutex> lock(mutex_);
  draining_ = true;
}

bool Scheduler::draining() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return draining_;
}

bool Scheduler::WaitUntilIdle(int timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  return idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                        [this] { return unfinished_jobs_ == 0; });
}

std::size_t Scheduler::queued_jobs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.size();
}

double Scheduler::predicted_backlog_us() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  double backlog = queue_.predicted_us();
  for (const auto& [id, launch] : launched_) backlog += launch.predicted_us;
  return backlog;
}

void Scheduler::Dispatch() {
  std::vector<Finished> finished;
  std::vector<std::pair<std::uint64_t, DeviceWork>> launches;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const TimeNs now = clock_->Now();
    for (auto& job : queue_.RemoveExpired(now)) finished.push_back(EndQueuedLocked(std::move(job)));
    while (!queue_.empty() &&
           launched_.size() < static_cast<std::size_t>(device_->max_in_flight())) {
      Launched launch;
      launch.batch = queue_.Pop();
      for (const auto& job : launch.batch) {
        job->receipt.spans.back().end = now;  // of kQueue, which Submit() opened
        launch.predicted_us += job->work.plan.predicted_us;
      }
      launches.emplace_back(next_launch_id_, WorkOf(launch.batch));
      launched_.emplace(next_launch_id_, std::move(launch));
      ++next_launch_id_;
    }
  }
  // Without the lock: a device may call back before Submit() returns.
  for (auto& [id, work] : launches) {
    device_->Submit(std::move(work),
                    [this, id = id](DeviceResult result) { OnLaunchDone(id, std::move(result)); });
  }
  Deliver(std::move(finished));
}

void Scheduler::OnLaunchDone(std::uint64_t launch_id, DeviceResult result) {
  std::vector<Finished> finished;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto position = launched_.find(launch_id);
    Launched launch = std::move(position->second);
    launched_.erase(position);
    std::uint64_t rows = 0;
    double flops = 0;
    for (const auto& job : launch.batch) {
      rows += static_cast<std::uint64_t>(job->work.problem.m);
      flops += job->work.problem.flops();
    }
    const TimeNs now = clock_->Now();
    for (auto& job : launch.batch) {
      Receipt& receipt = job->receipt;
      // A job waits until the device really begins, not until it was handed over.
      if (!result.spans.empty()) receipt.spans.back().end = result.spans.front().start;
      receipt.spans.insert(receipt.spans.end(), result.spans.begin(), result.spans.end());
      receipt.batch_requests = launch.batch.size();
      receipt.batch_rows = rows;
      receipt.batch_flops = flops;
      absl::Status status = result.status;
      if (job->deadline <= now) {
        status = absl::DeadlineExceededError("the deadline passed while the product was computed");
      } else if (launch.cancelled.count(job->id) != 0) {
        status = absl::CancelledError("cancelled while the product was computed");
      }
      finished.push_back({std::move(job), std::move(status)});
    }
  }
  // The next launch first: the device must not wait for results to be delivered.
  Dispatch();
  Deliver(std::move(finished));
}

Scheduler::Finished Scheduler::EndQueuedLocked(std::unique_ptr<Job> job) const {
  const TimeNs now = clock_->Now();
  job->receipt.spans.back().end = now;
  absl::Status status = job->deadline <= now
                            ? absl::DeadlineExceededError("the deadline passed in the queue")
                            : absl::CancelledError("cancelled in the queue");
  return {std::move(job), std::move(status)};
}

void Scheduler::Deliver(std::vector<Finished> finished) {
  for (Finished& each : finished) {
    each.job->reservation.Release();
    each.job->work.buffers = {};
    std::move(each.job->done)(std::move(each.status), std::move(each.job->receipt));
  }
  if (finished.empty()) return;
  // Notified under the lock: whoever waits may destroy the scheduler right after.
  const std::lock_guard<std::mutex> lock(mutex_);
  unfinished_jobs_ -= finished.size();
  if (unfinished_jobs_ == 0) idle_.notify_all();
}

}  // namespace gemmd
