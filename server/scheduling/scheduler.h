// Keeps admitted jobs until the device takes them, and tells each one's end.
//
// A job is, in this order:
//   queued     Submit() took it; Cancel() or its deadline can still end it here
//   launched   the device has it; it runs to its end, and a cancelled one's result is
//              dropped
//   finished   its callback was called, exactly once, with
//                OK                  the result is in its buffers
//                CANCELLED           Cancel() came first
//                DEADLINE_EXCEEDED   the deadline passed first
//                the device's error  the launch failed
// Before its callback is called a job has left every queue and its reserved bytes are free.
//
// The device is work-conserving: whenever it has room and a job is queued, the job is
// launched at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "server/device/device.h"
#include "server/observe/clock.h"
#include "server/scheduling/batch_queue.h"
#include "server/scheduling/job.h"

namespace gemmd {

struct SchedulerOptions {
  // Jobs queued at most, besides those on the device; one more is refused. At least 1.
  std::size_t max_queued_jobs = 1024;
};

// Thread-safe. Callbacks run on the thread that finished the job: the caller's of
// Submit() or Cancel(), or the device's.
class Scheduler {
 public:
  // Both outlive the scheduler.
  Scheduler(Device* device, const Clock* clock, const SchedulerOptions& options);

  // REQUIRES: idle (see WaitUntilIdle).
  ~Scheduler() = default;

  // On an error the job's callback is never called.
  // RESOURCE_EXHAUSTED: the queue is full. UNAVAILABLE: draining.
  absl::Status Submit(std::unique_ptr<Job> job);

  // Ends the job if it is queued, drops its result if it is launched, does nothing if
  // there is no such job (it finished, or never came).
  void Cancel(std::uint64_t id);

  // From here on Submit() answers UNAVAILABLE.
  void StartDraining();
  bool draining() const;

  // Whether every submitted job's callback has returned, waiting up to `timeout_ms` for it.
  bool WaitUntilIdle(int timeout_ms);

  std::size_t queued_jobs() const;
  // Predicted time until a job submitted now would start.
  double predicted_backlog_us() const;

 private:
  // A job that left the scheduler, with what to tell it.
  struct Finished {
    std::unique_ptr<Job> job;
    absl::Status status;
  };

  // What the device works on.
  struct Launched {
    Batch batch;
    std::set<std::uint64_t> cancelled;
    double predicted_us = 0;
  };

  // REQUIRES: mutex_ held, and the job taken out of queue_.
  Finished EndQueuedLocked(std::unique_ptr<Job> job) const;

  // Ends expired jobs and fills the device.
  void Dispatch();
  void OnLaunchDone(std::uint64_t launch_id, DeviceResult result);
  void Deliver(std::vector<Finished> finished);

  Device* const device_;
  const Clock* const clock_;
  const SchedulerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  BatchQueue queue_;                            // guarded by mutex_
  std::map<std::uint64_t, Launched> launched_;  // guarded by mutex_; by launch id
  std::uint64_t next_launch_id_ = 0;            // guarded by mutex_
  std::size_t unfinished_jobs_ = 0;             // guarded by mutex_; callback not returned
  bool draining_ = false;                       // guarded by mutex_
};

}  // namespace gemmd
