// A device that computes one launch after another on a fake clock, a scheduler before it, and a
// loop that lets time pass from event to event. One thread: a run is a function of its seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/scheduling/scheduler.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"

namespace gemmd::testing {

inline TimeNs Ns(double us) { return static_cast<TimeNs>(us * 1e3); }

class SimulatedDevice final : public Device {
 public:
  explicit SimulatedDevice(const Clock* clock) : clock_(clock), memory_(std::uint64_t{1} << 50) {
    traits_.name = "simulated";
  }

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return most_in_flight; }
  BatchForm FormOf(const DeviceWork& work) const override {
    if (work.weights_id != 0) return BatchForm::kRows;
    return work.problem.n == kSmallN ? BatchForm::kGroup : BatchForm::kAlone;
  }
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) override {
    const double us = work.plan.predicted_us;
    return std::make_shared<Slices>(work, std::max(2, static_cast<int>(us / slice_us + 0.999)),
                                    pieces_ahead, goes_on);
  }
  void Submit(DeviceLaunch launch, Callback done) override {
    if (on_submit) on_submit(launch);
    if (launch.form == BatchForm::kSlice) {
      static_cast<Slices&>(*launch.sliced).Take(launch);
    }
    if (launch.is_ahead) {
      EXPECT_FALSE(ahead_.has_value()) << "two pieces are under way";
      ahead_begin_ = clock_->Now();
      ahead_.emplace(Running{std::move(launch), std::move(done)});
      return;
    }
    launches_.push_back({std::move(launch), std::move(done)});
    if (launches_.size() == 1) Begin();
  }

  // Problems of this N share launches as groups.
  static constexpr std::int64_t kSmallN = 7;

  // The time at which the next launch is done; kNoDeadline: none runs.
  TimeNs next_end() const { return std::min(computed_at(), ahead_at()); }
  void FinishOne() {
    if (ahead_at() < computed_at()) {
      Running running = *std::move(ahead_);
      ahead_.reset();
      DeviceResult result;
      result.status = fails ? fails(running.launch) : absl::OkStatus();
      result.spans.push_back({Stage::kCopyIn, ahead_begin_, ahead_begin_ + Ns(piece_us)});
      std::move(running.done)(std::move(result));
      return;
    }
    if (GoesOn()) {
      ++slices_;
      end_ += Duration();
      return;
    }
    Running running = std::move(launches_.front());
    launches_.pop_front();
    DeviceResult result;
    result.slices = slices_;
    if (slices_ > 1) static_cast<Slices&>(*running.launch.sliced).Skip(slices_ - 1);
    result.status = fails ? fails(running.launch) : absl::OkStatus();
    result.spans.push_back({Stage::kCompute, begin_, end_});
    if (!launches_.empty()) Begin();
    std::move(running.done)(std::move(result));
  }

  // The factor by which everything takes longer than predicted.
  double slowness = 1;
  // Pieces that go ahead of a long work's slices, and the time that each takes.
  int pieces_ahead = 0;
  double piece_us = 1000;
  // A launch of a long work goes on with further slices until its turn is over.
  bool goes_on = false;
  // Slices that a launch carries out at least. More than 1 only with one launch in flight.
  int least_slices = 1;
  int most_in_flight = 2;
  // Told of each launch; may be empty.
  std::function<void(const DeviceLaunch&)> on_submit;
  // Gives the status of a launch; empty: all is well.
  std::function<absl::Status(const DeviceLaunch&)> fails;

 private:
  class Slices final : public SlicedWork {
   public:
    Slices(DeviceWork sliced, int slices, int pieces, bool goes_on)
        : work(std::move(sliced)), slices_(slices), pieces_(pieces), goes_on_(goes_on) {}
    int slices() const override { return slices_; }
    bool may_go_on() const override { return goes_on_; }
    int pieces_ahead() const override { return pieces_; }
    // In order, each once, pieces before slices.
    void Take(const DeviceLaunch& launch) {
      EXPECT_EQ(launch.slice, launch.is_ahead ? next_piece_++ : next_slice_++);
      EXPECT_TRUE(!launch.is_ahead || next_slice_ == 0);
      EXPECT_LE(next_piece_, pieces_);
    }
    void Skip(int slices) { next_slice_ += slices; }
    const DeviceWork work;

   private:
    const int slices_;
    const int pieces_;
    const bool goes_on_;
    int next_slice_ = 0;
    int next_piece_ = 0;
  };
  struct Running {
    DeviceLaunch launch;
    Callback done;
  };

  double Us(const DeviceLaunch& launch) const {
    switch (launch.form) {
      case BatchForm::kSlice:
        return static_cast<const Slices&>(*launch.sliced).work.plan.predicted_us /
               launch.sliced->slices();
      case BatchForm::kRows:
        return launch.rows_plan.predicted_us;
      default:
        double us = 0;
        for (const DeviceWork& work : launch.works) us += work.plan.predicted_us;
        return us;
    }
  }
  TimeNs computed_at() const { return launches_.empty() ? kNoDeadline : end_; }
  TimeNs ahead_at() const { return ahead_.has_value() ? ahead_begin_ + Ns(piece_us) : kNoDeadline; }
  void Begin() {
    begin_ = clock_->Now();
    end_ = begin_ + Duration();
    slices_ = 1;
    const DeviceLaunch& launch = launches_.front().launch;
    if (launch.form != BatchForm::kSlice) return;
    slices_ = std::min(least_slices, launch.sliced->slices() - launch.slice);
    end_ = begin_ + slices_ * Duration();
  }
  TimeNs Duration() const {
    return std::max<TimeNs>(1, Ns(Us(launches_.front().launch) * slowness));
  }
  // At a slice's end.
  bool GoesOn() const {
    const DeviceLaunch& launch = launches_.front().launch;
    return launch.slice + slices_ < launch.goes_on_to && !*launch.turn_is_over;
  }

  const Clock* const clock_;
  MemoryBudget memory_;
  DeviceTraits traits_;
  std::optional<Running> ahead_;  // beside the launches
  TimeNs ahead_begin_ = 0;
  std::deque<Running> launches_;
  TimeNs begin_ = 0;
  TimeNs end_ = 0;
  int slices_ = 1;  // of the first launch, that are done at end_
};

// A row costs a hundredth of what B costs.
class SimulatedPlanner final : public BatchPlanner {
 public:
  std::optional<RowsPlan> PlanRows(const DeviceWork& work, std::int64_t rows) override {
    if (may_share && !may_share()) return std::nullopt;
    RowsPlan rows_plan{work.problem, work.plan};
    rows_plan.problem.m = rows;
    rows_plan.plan.predicted_us = RowsUs(rows);
    return rows_plan;
  }
  static double RowsUs(std::int64_t rows) { return 30 + 0.3 * static_cast<double>(rows); }

  // Says whether there is a plan for the rows; empty: always.
  std::function<bool()> may_share;
};

class Simulation {
 public:
  struct End {
    absl::Status status;
    TimeNs at = 0;
    Receipt receipt;
  };

  explicit Simulation(const SchedulerOptions& options = {})
      : device(&clock), scheduler(&device, &clock, &alarm, options, &planner) {}

  // A product that takes so long alone.
  std::unique_ptr<Job> MakeJob(double us, std::string tenant = "",
                               Priority priority = Priority::kNormal) {
    auto job = std::make_unique<Job>();
    job->id = next_id_++;
    job->work.problem = MakeProblem(1, 8, 8, DataType::kF32, DataType::kF32);
    job->work.plan.kernel = BuiltinRegistry().Find("cpu/panel_f32");
    job->work.plan.predicted_us = us;
    job->cost.device_us = job->cost.compute_us = job->cost.basis.compute_us = us;
    job->cost.least_us = us;  // well measured
    job->tenant = std::move(tenant);
    job->priority = priority;
    return job;
  }
  // One of rows over B number `weights`.
  std::unique_ptr<Job> MakeRows(std::int64_t rows, std::uint64_t weights) {
    std::unique_ptr<Job> job = MakeJob(SimulatedPlanner::RowsUs(rows));
    job->work.problem.m = job->work.problem.a.rows = job->work.problem.d.rows = rows;
    job->work.weights_id = weights;
    return job;
  }

  // The id; how it ends is in `ends`, where a second end of one job fails the test.
  std::uint64_t Submit(std::unique_ptr<Job> job) {
    const std::uint64_t id = job->id;
    job->done = [this, id](absl::Status status, Receipt receipt) {
      End end{std::move(status), clock.Now(), std::move(receipt)};
      has_ended.resize(std::max<std::size_t>(has_ended.size(), id + 1));
      EXPECT_FALSE(has_ended[id]) << "job " << id << " ended twice";
      has_ended[id] = true;
      if (on_end) on_end(id, end);
      if (keeps_ends) ends.emplace(id, std::move(end));
    };
    const absl::Status status = scheduler.Submit(std::move(job));
    if (!status.ok()) refused.emplace(id, status);
    return id;
  }

  // Goes on to the first of these: the device's end of a launch, the alarm, or `until`, the time to
  // stop at. False: `until` came.
  bool Step(TimeNs until) {
    const TimeNs end = device.next_end();
    const TimeNs next = std::min({end, alarm.at(), until});
    if (next > clock.Now()) clock.Advance(next - clock.Now());
    if (end <= clock.Now()) {
      device.FinishOne();
      return true;
    }
    if (alarm.RingIfDue(clock.Now())) return true;
    return clock.Now() < until;
  }
  void RunUntil(TimeNs until) {
    while (Step(until)) {
    }
  }
  void RunFor(double us) { RunUntil(clock.Now() + Ns(us)); }
  void RunUntilIdle() {
    while (scheduler.queued().jobs > 0 || device.next_end() != kNoDeadline) {
      ASSERT_NE(std::min(device.next_end(), alarm.at()), kNoDeadline) << "jobs wait for nothing";
      Step(kNoDeadline);
    }
  }

  FakeClock clock;
  FakeAlarm alarm;
  SimulatedDevice device;
  SimulatedPlanner planner;
  Scheduler scheduler;
  std::map<std::uint64_t, End> ends;
  std::map<std::uint64_t, absl::Status> refused;
  std::vector<bool> has_ended;  // by id
  bool keeps_ends = true;       // false: only has_ended and on_end tell
  std::function<void(std::uint64_t, const End&)> on_end;

 private:
  std::uint64_t next_id_ = 1;
};

}  // namespace gemmd::testing
