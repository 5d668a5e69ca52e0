// Fills the device: which launch is next, and what goes with it.
#include <algorithm>
#include <utility>

#include "server/scheduling/scheduler.h"

namespace gemmd {

bool Scheduler::IsDeviceIdle() const {
  const MutexLock lock(mutex_);
  return launched_ == 0;
}

bool Scheduler::IsBusyLocked() const { return launched_ >= device_->busy_in_flight(); }

bool Scheduler::HasSlotLocked() const {
  if (goes_on_ != nullptr) return false;  // its next slice may be under way
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
    LetGoOnLocked(launched.get());
  }
  return launched;
}

void Scheduler::LetGoOnLocked(Launched* launched) {
  const JobQueue::Turn& turn = launched->turn;
  const Job* const job = turn.jobs.front();
  if (turn.last || !launched->sliced->may_go_on() || !queue_.IsAheadOfAll(*job)) return;
  const double most = std::max(1.0, options_.most_alone_us / turn.us);
  const int left = launched->sliced->slices() - turn.slice;
  launched->goes_on_to = turn.slice + static_cast<int>(std::min<double>(left, most));
  goes_on_ = job;
  turn_is_over_ = std::make_shared<std::atomic<bool>>(false);
}

void Scheduler::EndTurnLocked() {
  if (goes_on_ != nullptr && !queue_.IsAheadOfAll(*goes_on_)) *turn_is_over_ = true;
}

// Takes a piece of the next long job ahead while the device computes others: else the device would
// be idle until what all slices of that job read has come. One piece at a time, so that copies of
// others wait for no more.
std::unique_ptr<Scheduler::Launched> Scheduler::TakeAheadLocked() {
  if (is_piece_ahead_ || !IsBusyLocked()) return nullptr;
  Job* const job = queue_.NextSliced();
  if (job == nullptr) return nullptr;
  Active& active = jobs_.at(job->id);
  if (active.pieces_ahead == active.sliced->pieces_ahead()) return nullptr;
  auto launched = std::make_unique<Launched>();
  launched->turn.form = BatchForm::kSlice;
  launched->turn.jobs = {job};
  launched->turn.slice = active.pieces_ahead++;
  launched->sliced = active.sliced;
  launched->is_ahead = true;
  ++active.in_flight;
  is_piece_ahead_ = true;
  return launched;
}

// Plans the turn's jobs as rows of one product, and returns whether they may go so.
bool Scheduler::PlanRows(Launched* launched) const {
  const std::vector<Job*>& jobs = launched->turn.jobs;
  std::int64_t rows = 0;
  for (const Job* const job : jobs) rows += job->work.problem.m;
  std::optional<RowsPlan> plan = planner_->PlanRows(jobs.front()->work, rows);
  if (!plan.has_value()) return false;
  launched->rows = *std::move(plan);
  Residency resident = jobs.front()->work.resident.which();
  resident.d = std::all_of(jobs.begin(), jobs.end(),
                           [](const Job* job) { return job->work.resident.d != nullptr; });
  launched->rows_cost = cost_.Predict(launched->rows.problem, launched->rows.plan, resident);
  launched->turn.us = launched->rows_cost.device_us;
  return true;
}

DeviceLaunch Scheduler::MakeLaunch(Launched* launched, std::vector<Job*>* others) const {
  JobQueue::Turn& turn = launched->turn;
  if (turn.form == BatchForm::kSlice) {
    std::vector<DeviceWork> works = launched->sliced->WorksOf(turn.slice);
    // The sliced work is given away: its memory must be free before the job's end is told.
    if (!works.empty()) {
      launched->sliced = nullptr;
      return DeviceLaunch::Group(std::move(works));
    }
    if (launched->is_ahead) return DeviceLaunch::Ahead(std::move(launched->sliced), turn.slice);
    DeviceLaunch launch = DeviceLaunch::Slice(std::move(launched->sliced), turn.slice);
    launch.goes_on_to = launched->goes_on_to;
    return launch;
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
  const Stack& stack = works.front().stack;
  const bool goes_together =
      stack.has_groups() ? device_->takes_groups() : stack.is_one() || device_->takes_stacks();
  if (!goes_together) {
    return DeviceLaunch::Group(ProductsOf(works.front(), 0, stack.count));
  }
  return {std::move(works.front())};
}

// Alone this time.
void Scheduler::QueueAgainLocked(Job* job) {
  jobs_.at(job->id).is_queued = true;
  const Cost& cost = job->cost;
  queue_.Push(job, {std::nullopt, 1, cost.device_us, cost.least_us, cost.device_us}, clock_->Now());
}

// Puts the jobs of a turn back that they cannot share.
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
  if (launched.is_ahead) return;
  std::uint64_t rows = 0;
  for (const Job* const job : launched.turn.jobs) {
    rows += static_cast<std::uint64_t>(job->work.rows());
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
  const Kernel* kernel = launched.turn.form == BatchForm::kRows
                             ? launched.rows.plan.kernel
                             : launched.turn.jobs.front()->work.plan.kernel;
  const bool has_room = counts_.by_kernel.size() < SchedulerStatistics::kKernels;
  if (!has_room && !counts_.by_kernel.contains(kernel)) kernel = nullptr;
  ++counts_.by_kernel[kernel][static_cast<std::size_t>(launched.turn.form)];
  if (launched.turn.form == BatchForm::kSlice && launched.turn.slice != 0) return;
  counts_.batch_requests.Add(launched.turn.jobs.size());
  counts_.batch_rows.Add(rows);
}

void Scheduler::SetAlarmLocked() {
  TimeNs next = queue_.NextLate();
  next_late_ = next;
  PublishBacklogLocked();
  // If there is no slot, the end of a launch comes first.
  if (HasSlotLocked()) next = std::min(next, queue_.NextClosing());
  if (next == alarm_at_) return;
  alarm_at_ = next;
  alarm_->Set(next);
}

void Scheduler::Dispatch() {
  std::vector<Finished> finished;
  {
    const MutexLock lock(mutex_);
    DispatchWith(&finished);
  }
  Deliver(std::move(finished));
}

void Scheduler::DispatchWith(std::vector<Finished>* finished, std::uint64_t here) {
  PublishBacklogLocked();  // whoever dispatches may be in a launch, and publish it late
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
    if (launched == nullptr) EndTurnLocked();
    if (launched == nullptr) launched = TakeAheadLocked();
    if (launched == nullptr && !dispatches_again_) break;
    if (launched == nullptr) continue;
    // The lock is not held: the launch's jobs are its own until it is told, and a device may call
    // back before Submit() returns.
    mutex_.unlock();
    std::vector<Job*> others;
    DeviceLaunch launch = MakeLaunch(launched.get(), &others);
    mutex_.lock();
    PutBackLocked(others, finished);
    const std::vector<Job*>& jobs = launched->turn.jobs;
    if (launched->goes_on_to != 0) launch.turn_is_over = turn_is_over_;
    // This thread runs no long launch, so that whoever comes meanwhile is served soon.
    launch.may_run_here = launched_ == 0 && jobs.size() == 1 && jobs.front()->id == here &&
                          launched->turn.us <= options_.slice_us && launched->goes_on_to == 0;
    CountLaunchLocked(*launched, now);
    mutex_.unlock();
    device_->Submit(std::move(launch),
                    [this, launched = std::move(launched)](DeviceResult result) mutable {
                      OnLaunchDone(*launched, std::move(result));
                    });
    mutex_.lock();
  }
  is_dispatching_ = false;
  SetAlarmLocked();
  if (unfinished_jobs_ == 0) idle_.notify_all();
}

}  // namespace gemmd
