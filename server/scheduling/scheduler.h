// Keeps admitted jobs until the device takes them, and tells each one's end.
//
// A job is, in this order:
//   queued     Submit() took it; Cancel() or its deadline can still end it here
//   launched   the device has it; it runs to its end, and a cancelled one's result is
//              dropped. One that goes in slices is both, until its last slice
//   finished   its callback was called, exactly once, with
//                OK                  the result is in its buffers
//                CANCELLED           Cancel() came first
//                DEADLINE_EXCEEDED   the deadline passed first, or no launch could meet it
//                the device's error  the launch failed
// Before its callback is called a job has left every queue and its reserved bytes are free.
//
// The queue decides which jobs a launch serves (job_queue.h). The device is work-conserving: while
// fewer launches are in flight than keep it busy, whatever waits is launched at once.
//
// scheduler.cc has jobs that come and leave, scheduler_dispatch.cc what goes to the device,
// scheduler_delivery.cc what comes of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/device/device.h"
#include "server/device/keyed_pool.h"
#include "server/observe/energy_meter.h"
#include "server/scheduling/adaptive_limit.h"
#include "server/scheduling/alarm.h"
#include "server/scheduling/batch_planner.h"
#include "server/scheduling/job.h"
#include "server/scheduling/job_queue.h"
#include "server/scheduling/launch_facts.h"
#include "server/scheduling/queue_bounds.h"
#include "server/scheduling/scheduler_statistics.h"

namespace gemmd {

struct SchedulerOptions {
  QueueBounds bounds;        // of what is queued, besides what the device has
  int tenant_percent = 100;  // of each bound, that one tenant may have
  QueuePolicy queue;
  AdaptiveLimit::Options limit;
  // Longer works are cut where the device can.
  double slice_us = 2000;
  // While nobody else is next, a work that goes in slices goes on for so long in one launch, where
  // the device can end that early. Until its end the predicted backlog has all of its slices.
  double most_alone_us = 50000;
  // While so many predicted microseconds are in flight, more is launched only to keep the device
  // busy.
  double max_launched_us = 8000;
  // Launches whose cost is remembered by likeness (CostModel).
  std::size_t remembered_costs = CostModel::kCapacity;
};

class Scheduler;

// A job that is still to come counts in PredictWait() for as long as this lives. It may be moved,
// and goes before its scheduler.
class ExpectedJob {
 public:
  ExpectedJob() = default;
  ExpectedJob(ExpectedJob&& other) noexcept
      : scheduler_(std::exchange(other.scheduler_, nullptr)), number_(other.number_) {}
  ExpectedJob& operator=(ExpectedJob&& other) noexcept {
    std::swap(scheduler_, other.scheduler_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~ExpectedJob();

 private:
  friend class Scheduler;
  ExpectedJob(Scheduler* scheduler, std::uint64_t number)
      : scheduler_(scheduler), number_(number) {}

  Scheduler* scheduler_ = nullptr;
  std::uint64_t number_ = 0;
};

// Thread-safe. Callbacks run on the workers' threads, those of jobs of one connection one after
// another; or on the thread that finished the job (the caller's of Submit() or Cancel(), the
// device's or the alarm's) where nothing else waits for that thread.
class Scheduler {
 public:
  // All outlive the scheduler. `alarm` is this scheduler's alone. `planner` null: rows share no
  // launch. `workers` null: callbacks run on the thread that finished the jobs. `energy` null: what
  // the device draws is not known.
  Scheduler(Device* device, const Clock* clock, Alarm* alarm, const SchedulerOptions& options,
            BatchPlanner* planner = nullptr, KeyedPool* workers = nullptr,
            EnergyMeter* energy = nullptr);

  // REQUIRES: idle (see WaitUntilIdle).
  ~Scheduler();

  // On an error the job's callback is never called. Under a CoalescingScope of the thread's nothing
  // is launched before its end; the scope ends before the scheduler does.
  // RESOURCE_EXHAUSTED: the queue is full.
  absl::Status Submit(std::unique_ptr<Job> job);

  // Predicts how long such a job would wait until it starts. DEADLINE_EXCEEDED: too long for its
  // deadline, or for one of a job that it would overtake.
  absl::StatusOr<double> PredictWait(const JobQueue::Newcomer& newcomer) const;
  // Announces a job that was admitted and waits for its operands. Otherwise as many jobs would be
  // admitted meanwhile as if it were not to come, and some would be late.
  ExpectedJob Expect(const JobQueue::Newcomer& newcomer);
  // Returns whether a job of so many microseconds is in time without a closer look: all that was
  // submitted may go before it, and then nothing of it is late either. Takes no lock.
  bool IsFarFrom(TimeNs deadline, double us) const;

  // Ends the job if it is queued, drops its result if it is launched, does nothing if
  // there is no such job (it finished, or never came).
  void Cancel(std::uint64_t id);

  // Waits up to `timeout_ms` for every submitted job's callback to return, and returns whether all
  // have.
  bool WaitUntilIdle(int timeout_ms);
  // Jobs whose callbacks have not returned.
  std::size_t unfinished_jobs() const { return unfinished_jobs_; }

  // The costs of launches on this device; the model learns from each.
  const CostModel& cost() const { return cost_; }
  // Admission refused a product because of its least_us.
  void ObserveRefusal(const Cost& cost) { cost_.ObserveRefusal(cost); }

  QueueUse queued() const;
  // Predicted time until all that was submitted is done.
  double predicted_backlog_us() const;
  // The predicted backlog at the last change, without and with the jobs that are expected. Both
  // take no lock: every request asks for them where there are several devices.
  double submitted_backlog_us() const { return submitted_us_; }
  double expected_backlog_us() const { return backlog_us_; }
  SchedulerStatistics statistics() const;

 private:
  static constexpr std::uint64_t kNoJob = ~std::uint64_t{0};

  // A job with what is known of it here.
  struct Active {
    std::unique_ptr<Job> job;
    std::shared_ptr<SlicedWork> sliced;  // null: it goes whole
    int pieces_ahead = 0;                // that were launched
    bool is_queued = true;
    int in_flight = 0;           // launches
    std::size_t queue_span = 0;  // in the receipt
    TimeNs ran_until = 0;        // 0: it has not begun
    int slices_done = 0;         // that succeeded
    double predicted_wait_us = 0;
    absl::Status end;  // not OK: how it will end, whatever its launches do
  };
  friend class ExpectedJob;
  void Forget(std::uint64_t expected);

  // A launch that the device works on.
  struct Launched {
    JobQueue::Turn turn;
    std::shared_ptr<SlicedWork> sliced;  // of kSlice
    int goes_on_to = 0;                  // of kSlice: see DeviceLaunch
    bool is_ahead = false;               // a piece that goes ahead of its slices
    RowsPlan rows;                       // of kRows
    Cost rows_cost;                      // of kRows
  };
  // A job that left the scheduler, with what to tell it.
  struct Finished {
    std::unique_ptr<Job> job;
    absl::Status status;
    std::shared_ptr<const LaunchFacts> facts;  // that its receipt lacks; null: none
    std::size_t queue_span = 0;
  };

  absl::Status CheckRoomLocked(const Job& job, const JobQueue::Terms& terms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(Active* active, absl::Status status, std::vector<Finished>* finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LearnFromStoppedLocked(const Active& active) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLateLocked(TimeNs now, std::vector<Finished>* finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasSlotLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsBusyLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDeviceIdle() const;
  double BacklogUsLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.use().us + launched_us_;
  }
  void PublishBacklogLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    submitted_us_ = BacklogUsLocked();
    backlog_us_ = BacklogUsLocked() + queue_.expected_us();
  }
  // Null: nothing is to be launched now.
  std::unique_ptr<Launched> TakeTurnLocked(TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the launch go on with slices behind its own, where nobody else is next.
  void LetGoOnLocked(Launched* launched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the turn of the launch that goes on if somebody else is next, or its job was given up.
  void EndTurnLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a piece that may go ahead of its slices. Null: none is to be launched now.
  std::unique_ptr<Launched> TakeAheadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PlanRows(Launched* launched) const;
  // `others`: jobs that cannot go with the first after all, and wait for turns of their own.
  DeviceLaunch MakeLaunch(Launched* launched, std::vector<Job*>* others) const;
  void PutBackLocked(const std::vector<Job*>& jobs, std::vector<Finished>* finished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountLaunchLocked(const Launched& launched, TimeNs now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueueAgainLocked(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAlarmLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Learn(const Launched& launched, const std::vector<StageSpan>& spans);

  // Ends late jobs and fills the device.
  void Dispatch();
  // Ends late jobs and fills the device; releases mutex_ at times. `here`: the job that may run on
  // this thread.
  void DispatchWith(std::vector<Finished>* finished, std::uint64_t here = kNoJob)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnLaunchDone(const Launched& launched, DeviceResult result);
  void Deliver(std::vector<Finished> finished);
  void DeliverHere(std::vector<Finished> finished);

  Device* const device_;
  const Clock* const clock_;
  Alarm* const alarm_;
  const SchedulerOptions options_;
  const QueueBounds tenant_bounds_;
  BatchPlanner* const planner_;
  KeyedPool* const workers_;
  EnergyMeter* const energy_;
  CostModel cost_;

  mutable AdaptiveMutex mutex_;
  std::condition_variable_any idle_;
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  AdaptiveLimit limit_ ABSL_GUARDED_BY(mutex_);
  // Jobs that have not ended, by id.
  absl::flat_hash_map<std::uint64_t, Active> jobs_ ABSL_GUARDED_BY(mutex_);
  int launched_ ABSL_GUARDED_BY(mutex_) = 0;             // launches under way, but for one ahead
  bool is_piece_ahead_ ABSL_GUARDED_BY(mutex_) = false;  // one is under way
  double launched_us_ ABSL_GUARDED_BY(mutex_) = 0;
  // The job whose launch goes on, and what tells the launch; null: none does.
  const Job* goes_on_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<std::atomic<bool>> turn_is_over_ ABSL_GUARDED_BY(mutex_);
  SchedulerStatistics counts_ ABSL_GUARDED_BY(mutex_);     // but for what is read when asked
  TimeNs alarm_at_ ABSL_GUARDED_BY(mutex_) = kNoDeadline;  // what the alarm is set to
  // Callback not returned. Changed without mutex_ too, but not to 0.
  std::atomic<std::size_t> unfinished_jobs_ = 0;
  // The backlog at the last change, without and with what is expected: for IsFarFrom() and the
  // router.
  std::atomic<double> submitted_us_ = 0;
  std::atomic<double> backlog_us_ = 0;
  std::atomic<TimeNs> next_late_ = kNoDeadline;
  // One thread at a time fills the device, so that launches reach it in the order in which
  // they were chosen; another that wants to asks it to look again.
  bool is_dispatching_ ABSL_GUARDED_BY(mutex_) = false;
  bool dispatches_again_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd
