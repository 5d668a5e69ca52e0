#include "server/scheduling/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sync/coalescing_scope.h"
#include "server/observe/refusal.h"

namespace gemmd {
namespace {

constexpr absl::string_view kLateInQueue = "the deadline passed in the queue";
constexpr absl::string_view kWaitedTooLong =
    "the request waited in the queue for longer than its timeout allows";

absl::Status LateInQueue(const Job& job, TimeNs now) {
  if (job.deadline <= now) return absl::DeadlineExceededError(kLateInQueue);
  if (job.start_by <= now) return absl::DeadlineExceededError(kWaitedTooLong);
  return absl::DeadlineExceededError(
      absl::StrCat("the deadline leaves ", (job.deadline - now) / 1000,
                   " us after the wait in the queue, and the product alone takes at least ",
                   static_cast<std::int64_t>(job.cost.least_us), " us by what was measured"));
}

// Returns the time that a job adds to a launch that it shares.
double MarginalUs(BatchForm form, const Job& job) {
  const Cost& cost = job.cost;
  if (form == BatchForm::kGroup) return std::min(cost.compute_us, cost.device_us);
  // Kernels compute whole tiles of rows, and read B once a tile.
  constexpr double kTileRows = 64;
  const double part = std::min(1.0, static_cast<double>(job.work.problem.m) / kTileRows);
  return std::min(cost.device_us, part * cost.device_us);
}

}  // namespace

Scheduler::Scheduler(Device* device, const Clock* clock, Alarm* alarm,
                     const SchedulerOptions& options, BatchPlanner* planner, KeyedPool* workers,
                     EnergyMeter* energy)
    : device_(device),
      clock_(clock),
      alarm_(alarm),
      options_(options),
      tenant_bounds_(ShareOf(options.bounds, options.tenant_percent)),
      planner_(planner),
      workers_(workers),
      energy_(energy),
      cost_(CopyRatesOf(*device), options.remembered_costs),
      queue_(options.queue),
      limit_(options.limit) {
  alarm_->Start([this] {
    {
      const MutexLock lock(mutex_);
      alarm_at_ = kNoDeadline;
    }
    Dispatch();
  });
}

Scheduler::~Scheduler() { alarm_->Stop(); }

absl::Status Scheduler::CheckRoomLocked(const Job& job, const JobQueue::Terms& terms) {
  const QueueUse& use = queue_.use();
  const QueueUse more = {1, job.host_bytes, job.work.rows(), terms.marginal_us};
  if (absl::Status s = CheckRoom("the queue", use, more, options_.bounds); !s.ok()) return s;
  if (use.jobs > 0 && use.us + more.us > limit_.limit_us()) {
    limit_.ObserveRefusal();
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", static_cast<std::int64_t>(use.us),
                     " us of predicted work wait, and ",
                     static_cast<std::int64_t>(limit_.limit_us()), " us may at present"));
  }
  if (options_.tenant_percent == 100) return absl::OkStatus();
  absl::Status share =
      CheckRoom("this tenant's share of the queue", queue_.UseOf(job.tenant), more, tenant_bounds_);
  if (share.ok()) return share;
  return WithCause(std::move(share), RefusalCause::kQueueShare);
}

absl::Status Scheduler::Submit(std::unique_ptr<Job> job) {
  const bool is_stack = !job->work.stack.is_one();
  const BatchForm form = is_stack ? BatchForm::kAlone : device_->FormOf(job->work);
  JobQueue::Terms terms;
  terms.us = terms.marginal_us = job->cost.device_us;
  terms.least_us = job->cost.least_us;
  Active active;
  if (form == BatchForm::kGroup || (form == BatchForm::kRows && planner_ != nullptr)) {
    terms.key.emplace(form, job->work);
    terms.marginal_us = MarginalUs(form, *job);
  } else if (is_stack || terms.us > options_.slice_us) {
    active.sliced = device_->Cut(job->work, options_.slice_us);
    if (active.sliced != nullptr) terms.slices = active.sliced->slices();
  }
  const std::uint64_t here = job->submitter_is_free ? job->id : kNoJob;
  std::vector<Finished> finished;
  {
    const MutexLock lock(mutex_);
    if (absl::Status s = CheckRoomLocked(*job, terms); !s.ok()) return s;
    const TimeNs now = clock_->Now();
    active.queue_span = job->receipt.spans.size();
    active.predicted_wait_us = queue_.use().us + launched_us_;
    job->receipt.spans.push_back({Stage::kQueue, now, 0});
    queue_.Push(job.get(), terms, now);
    const std::uint64_t id = job->id;
    if (!job->is_measurement) ++counts_.requests;
    active.job = std::move(job);
    jobs_.emplace(id, std::move(active));
    ++unfinished_jobs_;
    // Jobs that come together go together: else the first would leave alone, and its launch would
    // be issued before the others are looked at.
    const bool others_follow = CoalescingScope::Defer(this, [this] { Dispatch(); });
    if (!others_follow) DispatchWith(&finished, here);
  }
  Deliver(std::move(finished));
  return absl::OkStatus();
}

absl::StatusOr<double> Scheduler::PredictWait(const JobQueue::Newcomer& newcomer) const {
  const MutexLock lock(mutex_);
  const std::optional<double> wait_us = queue_.PredictWait(newcomer, launched_us_, clock_->Now());
  if (wait_us.has_value()) return *wait_us;
  return absl::DeadlineExceededError(
      absl::StrCat("the deadline cannot be met: ", queue_.use().jobs,
                   " requests wait, and the product alone is predicted to take ",
                   static_cast<std::int64_t>(newcomer.us), " us"));
}

ExpectedJob Scheduler::Expect(const JobQueue::Newcomer& newcomer) {
  const MutexLock lock(mutex_);
  const std::uint64_t number = queue_.Expect(newcomer, clock_->Now());
  PublishBacklogLocked();
  return {this, number};
}

void Scheduler::Forget(std::uint64_t expected) {
  const MutexLock lock(mutex_);
  queue_.Forget(expected);
  PublishBacklogLocked();
}

ExpectedJob::~ExpectedJob() {
  if (scheduler_ != nullptr) scheduler_->Forget(number_);
}

void Scheduler::Cancel(std::uint64_t id) {
  std::vector<Finished> finished;
  {
    const MutexLock lock(mutex_);
    const auto position = jobs_.find(id);
    if (position == jobs_.end() || !position->second.end.ok()) return;
    Active& active = position->second;
    if (active.is_queued) queue_.Remove(*active.job);
    active.is_queued = false;
    EndLocked(
        &active,
        absl::CancelledError(active.in_flight == 0 ? "cancelled in the queue"
                                                   : "cancelled while the product was computed"),
        &finished);
  }
  Deliver(std::move(finished));
}

// The job is in no queue. Its end is told once the device has nothing of it.
void Scheduler::EndLocked(Active* active, absl::Status status, std::vector<Finished>* finished) {
  if (active->end.ok()) active->end = std::move(status);
  if (active->in_flight > 0) return EndTurnLocked();
  if (absl::IsDeadlineExceeded(active->end)) {
    ++(active->ran_until == 0 ? counts_.late_in_queue : counts_.late_on_device);
  }
  LearnFromStoppedLocked(*active);
  Receipt& receipt = active->job->receipt;
  if (active->ran_until == 0) receipt.spans[active->queue_span].end = clock_->Now();
  const std::uint64_t id = active->job->id;
  finished->push_back({std::move(active->job), std::move(active->end), nullptr, 0});
  jobs_.erase(id);
}

// A product that was stopped at its deadline never ends, so its time is learnt from its first part.
void Scheduler::LearnFromStoppedLocked(const Active& active) {
  if (active.slices_done == 0 || !absl::IsDeadlineExceeded(active.end)) return;
  const double part = static_cast<double>(active.slices_done) / active.sliced->slices();
  if (part < 1) cost_.ObservePart(active.job->cost, active.job->receipt.spans, part);
}

void Scheduler::EndLateLocked(TimeNs now, std::vector<Finished>* finished) {
  for (Job* const job : queue_.RemoveLate(now)) {
    if (std::min(job->deadline, job->start_by) > now) cost_.ObserveRefusal(job->cost);
    Active& active = jobs_.at(job->id);
    active.is_queued = false;
    EndLocked(&active, LateInQueue(*job, now), finished);
  }
}

bool Scheduler::WaitUntilIdle(int timeout_ms) {
  const MutexLock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (unfinished_jobs_ != 0 || is_dispatching_) {
    if (idle_.wait_until(mutex_, end) == std::cv_status::timeout) {
      return unfinished_jobs_ == 0 && !is_dispatching_;
    }
  }
  return true;
}

QueueUse Scheduler::queued() const {
  const MutexLock lock(mutex_);
  return queue_.use();
}

double Scheduler::predicted_backlog_us() const {
  const MutexLock lock(mutex_);
  return BacklogUsLocked();
}

SchedulerStatistics Scheduler::statistics() const {
  const MutexLock lock(mutex_);
  SchedulerStatistics statistics = counts_;
  statistics.queued = queue_.use();
  statistics.backlog_us = BacklogUsLocked();
  statistics.queue_limit_us = limit_.limit_us();
  return statistics;
}

bool Scheduler::IsFarFrom(TimeNs deadline, double us) const {
  // JobQueue::PredictWait() never predicts more: others may bring as much again as they have.
  constexpr double kMostTimes = 3;
  const double end_us = kMostTimes * (backlog_us_ + us);
  const TimeNs first = std::min<TimeNs>(deadline, next_late_);
  return first == kNoDeadline || static_cast<double>(first - clock_->Now()) > end_us * 1e3;
}

}  // namespace gemmd
