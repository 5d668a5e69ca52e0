#include "server/scheduling/scheduler.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sync/deferral.h"

namespace gemmd {
namespace {

constexpr absl::string_view kLateInQueue = "the deadline passed in the queue";

absl::Status LateInQueue(const Job& job, TimeNs now) {
  if (job.deadline <= now) return absl::DeadlineExceededError(kLateInQueue);
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline is ", (job.deadline - now) / 1000,
      " us away after the wait in the queue, and the product alone is predicted to take ",
      static_cast<std::int64_t>(job.cost.device_us), " us"));
}

// What a job adds to a launch that it shares.
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
                     const SchedulerOptions& options, BatchPlanner* planner, KeyedPool* workers)
    : device_(device),
      clock_(clock),
      alarm_(alarm),
      options_(options),
      tenant_bounds_(ShareOf(options.bounds, options.tenant_percent)),
      planner_(planner),
      workers_(workers),
      cost_(CopyRatesOf(*device), options.remembered_costs),
      queue_(options.queue),
      limit_(options.limit) {
  alarm_->Start([this] {
    {
      const std::lock_guard<AdaptiveMutex> lock(mutex_);
      alarm_at_ = kNoDeadline;
    }
    Dispatch();
  });
}

Scheduler::~Scheduler() { alarm_->Stop(); }

absl::Status Scheduler::CheckRoomLocked(const Job& job, const JobQueue::Terms& terms) {
  if (draining_) return absl::UnavailableError("the server is draining: use another replica");
  const QueueUse& use = queue_.use();
  const QueueUse more = {1, job.host_bytes, job.work.problem.m, terms.marginal_us};
  if (absl::Status s = CheckRoom("the queue", use, more, options_.bounds); !s.ok()) return s;
  if (use.jobs > 0 && use.us + more.us > limit_.limit_us()) {
    limit_.ObserveRefusal();
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", static_cast<std::int64_t>(use.us),
                     " us of predicted work wait, and ",
                     static_cast<std::int64_t>(limit_.limit_us()), " us may at present"));
  }
  if (options_.tenant_percent == 100) return absl::OkStatus();
  return CheckRoom("this tenant's share of the queue", queue_.UseOf(job.tenant), more,
                   tenant_bounds_);
}

absl::Status Scheduler::Submit(std::unique_ptr<Job> job) {
  const BatchForm form = device_->FormOf(job->work);
  JobQueue::Terms terms;
  terms.us = terms.marginal_us = job->cost.device_us;
  Active active;
  if (form == BatchForm::kGroup || (form == BatchForm::kRows && planner_ != nullptr)) {
    terms.key.emplace(form, job->work);
    terms.marginal_us = MarginalUs(form, *job);
  } else if (terms.us > options_.slice_us) {
    active.sliced = device_->Cut(job->work, options_.slice_us);
    if (active.sliced != nullptr) terms.slices = active.sliced->slices();
  }
  const std::uint64_t here = job->submitter_is_free ? job->id : kNoJob;
  std::vector<Finished> finished;
  {
    std::unique_lock<AdaptiveMutex> lock(mutex_);
    if (absl::Status s = CheckRoomLocked(*job, terms); !s.ok()) return s;
    const TimeNs now = clock_->Now();
    active.queue_span = job->receipt.spans.size();
    active.predicted_wait_us = queue_.use().us + launched_us_;
    job->receipt.spans.push_back({Stage::kQueue, now, 0});
    queue_.Push(job.get(), terms, now);
    const std::uint64_t id = job->id;
    active.job = std::move(job);
    jobs_.emplace(id, std::move(active));
    ++unfinished_jobs_;
    DispatchWith(&lock, &finished, here);
  }
  Deliver(std::move(finished));
  return absl::OkStatus();
}

absl::StatusOr<double> Scheduler::PredictWait(const JobQueue::Newcomer& newcomer) const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  const std::optional<double> wait_us = queue_.PredictWait(newcomer, launched_us_, clock_->Now());
  if (wait_us.has_value()) return *wait_us;
  return absl::DeadlineExceededError(
      absl::StrCat("the deadline cannot be met: ", queue_.use().jobs,
                   " requests wait, and the product alone is predicted to take ",
                   static_cast<std::int64_t>(newcomer.us), " us"));
}

void Scheduler::Cancel(std::uint64_t id) {
  std::vector<Finished> finished;
  {
    const std::lock_guard<AdaptiveMutex> lock(mutex_);
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
  if (active->in_flight > 0) return;
  if (absl::IsDeadlineExceeded(active->end)) {
    ++(active->ran_until == 0 ? counts_.late_in_queue : counts_.late_on_device);
  }
  Receipt& receipt = active->job->receipt;
  if (active->ran_until == 0) receipt.spans[active->queue_span].end = clock_->Now();
  const std::uint64_t id = active->job->id;
  finished->push_back({std::move(active->job), std::move(active->end), nullptr, 0});
  jobs_.erase(id);
}

void Scheduler::EndLateLocked(TimeNs now, std::vector<Finished>* finished) {
  for (Job* const job : queue_.RemoveLate(now)) {
    Active& active = jobs_.at(job->id);
    active.is_queued = false;
    EndLocked(&active, LateInQueue(*job, now), finished);
  }
}

void Scheduler::StartDraining() {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  draining_ = true;
}

bool Scheduler::WaitUntilIdle(int timeout_ms) {
  std::unique_lock<AdaptiveMutex> lock(mutex_);
  return idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                        [this] { return unfinished_jobs_ == 0 && !is_dispatching_; });
}

QueueUse Scheduler::queued() const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  return queue_.use();
}

double Scheduler::predicted_backlog_us() const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  return queue_.use().us + launched_us_;
}

SchedulerStatistics Scheduler::statistics() const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  SchedulerStatistics statistics = counts_;
  statistics.queued = queue_.use();
  statistics.backlog_us = queue_.use().us + launched_us_;
  statistics.queue_limit_us = limit_.limit_us();
  return statistics;
}

bool Scheduler::IsDeviceIdle() const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  return launched_ == 0;
}

bool Scheduler::IsBusyLocked() const { return launched_ >= device_->busy_in_flight(); }

bool Scheduler::HasSlotLocked() const {
  return !IsBusyLocked() ||
         (launched_ < device_->max_in_flight() && launched_us_ < options_.max_launched_us);
}

std::unique_ptr<Scheduler::Launched> Scheduler::TakeTurnLocked(TimeNs now) {
  if (!HasSlotLocked()) return nullptr;
  std::optional<JobQueue::Turn> turn = queue_.Pop(now, IsBusyLocked());
  if (!turn.has_value()) return nullptr;
  for (const Job* const job : turn->jobs) {
    Active& active = jobs_.at(job->id);
    if (turn->last) active.is_queued = false;
    ++active.in_flight;
  }
  auto launched = std::make_unique<Launched>();
  launched->turn = *std::move(turn);
  if (launched->turn.form == BatchForm::kSlice) {
    launched->sliced = jobs_.at(launched->turn.jobs.front()->id).sliced;
  }
  return launched;
}

// Whether the turn's jobs may go as rows of one product.
bool Scheduler::PlanRows(Launched* launched) const {
  const std::vector<Job*>& jobs = launched->turn.jobs;
  std::int64_t rows = 0;
  std::uint64_t workspace_bytes = 0;
  for (const Job* const job : jobs) {
    rows += job->work.problem.m;
    workspace_bytes += job->work.plan.workspace_bytes;
  }
  std::optional<RowsPlan> plan = planner_->PlanRows(jobs.front()->work, rows);
  if (!plan.has_value() || plan->plan.workspace_bytes > workspace_bytes) return false;
  launched->rows = *std::move(plan);
  launched->rows_cost = cost_.Predict(launched->rows.problem, launched->rows.plan,
                                      Residency{false, jobs.front()->work.resident_b != nullptr});
  launched->turn.us = launched->rows_cost.device_us;
  return true;
}

DeviceLaunch Scheduler::MakeLaunch(Launched* launched, std::vector<Job*>* others) const {
  JobQueue::Turn& turn = launched->turn;
  if (turn.form == BatchForm::kSlice) {
    // Given away: what it holds must be free before the job's end is told.
    return DeviceLaunch::Slice(std::move(launched->sliced), turn.slice);
  }
  if (turn.form == BatchForm::kRows && !PlanRows(launched)) {
    others->assign(turn.jobs.begin() + 1, turn.jobs.end());
    turn.jobs.resize(1);
    turn.us = turn.jobs.front()->cost.device_us;
    turn.form = BatchForm::kAlone;
  }
  std::vector<DeviceWork> works;
  works.reserve(turn.jobs.size());
  for (const Job* const job : turn.jobs) works.push_back(job->work);
  if (turn.form == BatchForm::kRows) {
    return DeviceLaunch::Rows(std::move(works), launched->rows.plan);
  }
  if (turn.form == BatchForm::kGroup) return DeviceLaunch::Group(std::move(works));
  return {std::move(works.front())};
}

// Alone this time.
void Scheduler::QueueAgainLocked(Job* job) {
  jobs_.at(job->id).is_queued = true;
  queue_.Push(job, {std::nullopt, 1, job->cost.device_us, job->cost.device_us}, clock_->Now());
}

// Of a turn that they cannot share.
void Scheduler::PutBackLocked(const std::vector<Job*>& jobs, std::vector<Finished>* finished) {
  for (Job* const job : jobs) {
    Active& active = jobs_.at(job->id);
    --active.in_flight;
    if (active.end.ok()) {
      QueueAgainLocked(job);
    } else {
      EndLocked(&active, absl::OkStatus(), finished);
    }
  }
}

void Scheduler::CountLaunchLocked(const Launched& launched, TimeNs now) {
  for (const Job* const job : launched.turn.jobs) {
    Active& active = jobs_.at(job->id);
    if (active.ran_until != 0) continue;
    StageSpan& wait = active.job->receipt.spans[active.queue_span];
    wait.end = active.ran_until = now;
    limit_.Observe(active.predicted_wait_us, static_cast<double>(now - wait.start) / 1e3);
  }
  ++launched_;
  launched_us_ += launched.turn.us;
  auto& launches = counts_.launches[static_cast<std::size_t>(launched.turn.form)];
  ++launches.launches;
  launches.jobs += launched.turn.jobs.size();
}

bool Scheduler::IsFarFrom(TimeNs deadline, double us) const {
  // JobQueue::PredictWait() never predicts more: others may bring as much again as they have.
  constexpr double kMostTimes = 3;
  const double end_us = kMostTimes * (backlog_us_ + us);
  const TimeNs first = std::min<TimeNs>(deadline, next_late_);
  return first == kNoDeadline || static_cast<double>(first - clock_->Now()) > end_us * 1e3;
}

void Scheduler::SetAlarmLocked() {
  TimeNs next = queue_.NextLate();
  next_late_ = next;
  backlog_us_ = queue_.use().us + launched_us_;
  // Without a slot the end of a launch comes first.
  if (HasSlotLocked()) next = std::min(next, queue_.NextClosing());
  if (next == alarm_at_) return;
  alarm_at_ = next;
  alarm_->Set(next);
}

void Scheduler::Dispatch() {
  std::vector<Finished> finished;
  {
    std::unique_lock<AdaptiveMutex> lock(mutex_);
    DispatchWith(&lock, &finished);
  }
  Deliver(std::move(finished));
}

void Scheduler::DispatchWith(std::unique_lock<AdaptiveMutex>* lock, std::vector<Finished>* finished,
                             std::uint64_t here) {
  if (is_dispatching_) {
    dispatches_again_ = true;
    return;
  }
  is_dispatching_ = true;
  while (true) {
    dispatches_again_ = false;
    const TimeNs now = clock_->Now();
    EndLateLocked(now, finished);
    std::unique_ptr<Launched> launched = TakeTurnLocked(now);
    if (launched == nullptr && !dispatches_again_) break;
    if (launched == nullptr) continue;
    // Without the lock: its jobs are this launch's until it is told, and a device may call back
    // before Submit() returns.
    lock->unlock();
    std::vector<Job*> others;
    DeviceLaunch launch = MakeLaunch(launched.get(), &others);
    lock->lock();
    PutBackLocked(others, finished);
    const std::vector<Job*>& jobs = launched->turn.jobs;
    // Not for long, so that whoever comes meanwhile is served soon.
    launch.may_run_here = launched_ == 0 && jobs.size() == 1 && jobs.front()->id == here &&
                          launched->turn.us <= options_.slice_us;
    CountLaunchLocked(*launched, now);
    lock->unlock();
    device_->Submit(std::move(launch),
                    [this, launched = std::move(launched)](DeviceResult result) mutable {
                      OnLaunchDone(*launched, std::move(result));
                    });
    lock->lock();
  }
  is_dispatching_ = false;
  SetAlarmLocked();
  if (unfinished_jobs_ == 0) idle_.notify_all();
}

// A work in slices is learnt from as a whole, at its end.
void Scheduler::Learn(const Launched& launched, const std::vector<StageSpan>& spans) {
  const JobQueue::Turn& turn = launched.turn;
  if (turn.form == BatchForm::kAlone) cost_.Observe(turn.jobs.front()->cost, spans);
  if (turn.form == BatchForm::kRows) cost_.Observe(launched.rows_cost, spans);
}

void Scheduler::OnLaunchDone(const Launched& launched, DeviceResult result) {
  const JobQueue::Turn& turn = launched.turn;
  // The jobs are still this launch's: nobody ends them before it is told.
  if (result.status.ok()) Learn(launched, result.spans);
  // One of them may be to blame, and the others shall not pay for it.
  const bool is_repeated =
      turn.jobs.size() > 1 && !result.status.ok() && !absl::IsUnavailable(result.status);
  const Plan* const rows_plan = turn.form == BatchForm::kRows ? &launched.rows.plan : nullptr;
  const auto facts = std::make_shared<const LaunchFacts>(turn.jobs, turn.slice, rows_plan,
                                                         std::move(result.spans));
  std::vector<Finished> finished;
  {
    std::unique_lock<AdaptiveMutex> lock(mutex_);
    --launched_;
    launched_us_ = launched_ == 0 ? 0 : launched_us_ - turn.us;
    const TimeNs now = clock_->Now();
    for (Job* const job : turn.jobs) {
      Active& active = jobs_.at(job->id);
      --active.in_flight;
      absl::Status status = is_repeated ? absl::OkStatus() : result.status;
      if (job->deadline <= now) {
        status = absl::DeadlineExceededError("the deadline passed while the product was computed");
      }
      if (!status.ok() && active.is_queued) {
        queue_.Remove(*job);
        active.is_queued = false;
      }
      if (is_repeated && status.ok() && active.end.ok()) {
        QueueAgainLocked(job);
        continue;
      }
      const bool ends = !active.is_queued && (active.in_flight == 0 || !status.ok());
      if (turn.form == BatchForm::kSlice) {
        facts->Record(active.queue_span, active.ran_until, &job->receipt);
        active.ran_until = std::max(active.ran_until, facts->end());
        const bool was_cut = ends && status.ok() && active.end.ok();
        if (was_cut) cost_.Observe(job->cost, job->receipt.spans);
      }
      if (!ends) continue;
      const std::size_t before = finished.size();
      const std::size_t queue_span = active.queue_span;
      EndLocked(&active, std::move(status), &finished);
      if (finished.size() == before || turn.form == BatchForm::kSlice || is_repeated) continue;
      // The rest is written where the job is delivered.
      finished.back().facts = facts;
      finished.back().queue_span = queue_span;
    }
    // The next launch first: the device must not wait for results to be delivered.
    DispatchWith(&lock, &finished);
  }
  Deliver(std::move(finished));
}

void Scheduler::Deliver(std::vector<Finished> finished) {
  if (finished.empty()) return;
  // An answer takes some 40 us to build and to hand to the network. Meanwhile the device's thread
  // would not see the next launch's end; and threads that answer over one connection would wait
  // for each other inside gRPC.
  if (workers_ == nullptr || (finished.size() <= 1 && IsDeviceIdle())) {
    DeliverHere(std::move(finished));
    return;
  }
  std::map<std::uint64_t, std::vector<Finished>> by_connection;
  for (Finished& each : finished) {
    by_connection[each.job->connection].push_back(std::move(each));
  }
  for (auto& [connection, part] : by_connection) {
    workers_->Post(connection,
                   [this, part = std::move(part)]() mutable { DeliverHere(std::move(part)); });
  }
}

void Scheduler::DeliverHere(std::vector<Finished> finished) {
  {
    const Deferral together;  // those of one session leave in one message
    for (Finished& each : finished) {
      Receipt& receipt = each.job->receipt;
      if (each.facts != nullptr) each.facts->Record(each.queue_span, 0, &receipt);
      each.job->reservation.Release();
      each.job->work.buffers = {};
      std::move(each.job->done)(std::move(each.status), std::move(receipt));
    }
  }
  const std::size_t count = finished.size();
  std::size_t left = unfinished_jobs_;
  while (left > count) {
    if (unfinished_jobs_.compare_exchange_weak(left, left - count)) return;
  }
  // The last are told under the lock: whoever waits may destroy the scheduler right after.
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  unfinished_jobs_ -= count;
  if (unfinished_jobs_ == 0) idle_.notify_all();
}

}  // namespace gemmd
