// The steps after a launch's end: the cost model learns, jobs end, their callers are told.
#include <algorithm>
#include <map>
#include <utility>

#include "base/sync/coalescing_scope.h"
#include "server/scheduling/scheduler.h"

namespace gemmd {

// A work in slices is learnt from as a whole, at its end (see also LearnFromStoppedLocked()).
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
  const auto facts = std::make_shared<const LaunchFacts>(
      turn.jobs, launched.is_ahead ? LaunchFacts::kAhead : turn.slice, rows_plan,
      std::move(result.spans), result.copied, energy_);
  std::vector<Finished> finished;
  {
    const MutexLock lock(mutex_);
    if (launched.is_ahead) {
      is_piece_ahead_ = false;
    } else {
      --launched_;
      launched_us_ = launched_ == 0 ? 0 : launched_us_ - turn.us;
    }
    const TimeNs now = clock_->Now();
    if (launched.goes_on_to != 0) goes_on_ = nullptr;
    for (Job* const job : turn.jobs) {
      Active& active = jobs_.at(job->id);
      --active.in_flight;
      if (active.is_queued && result.slices > 1) {
        active.is_queued = queue_.Skip(*job, result.slices - 1, launched.goes_on_to == 0);
      }
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
        if (!launched.is_ahead) {
          active.ran_until = std::max(active.ran_until, facts->end());
          if (result.status.ok()) active.slices_done += result.slices;
        }
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
    DispatchWith(&finished);
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
    const CoalescingScope together;  // those of one session leave in one message
    for (Finished& each : finished) {
      Receipt& receipt = each.job->receipt;
      if (each.facts != nullptr) each.facts->Record(each.queue_span, 0, &receipt);
      each.job->reservation.Release();
      each.job->work.buffers = {};
      each.job->work.resident = {};
      std::move(each.job->done)(std::move(each.status), std::move(receipt));
    }
  }
  const std::size_t count = finished.size();
  std::size_t left = unfinished_jobs_;
  while (left > count) {
    if (unfinished_jobs_.compare_exchange_weak(left, left - count)) return;
  }
  // The last are told under the lock: whoever waits may destroy the scheduler right after.
  const MutexLock lock(mutex_);
  unfinished_jobs_ -= count;
  if (unfinished_jobs_ == 0) idle_.notify_all();
}

}  // namespace gemmd
