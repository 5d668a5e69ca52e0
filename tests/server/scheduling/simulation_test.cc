// The scheduler under load, on simulated time: who waits how long, and that nothing is lost.
#include "tests/server/scheduling/simulation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

using testing::Ns;
using testing::Simulation;

constexpr double kMs = 1e3;  // microseconds

double ComputeUs(const Receipt& receipt) {
  TimeNs sum = 0;
  for (const StageSpan& span : receipt.spans) {
    if (span.stage == Stage::kCompute) sum += span.end - span.start;
  }
  return static_cast<double>(sum) / 1e3;
}

// Tenants that keep `in_flight` jobs of `us` each before the scheduler, for ever.
struct Load {
  std::string tenant;
  double us = 0;
  int in_flight = 1;
};

// Device microseconds of each tenant in `for_us`, where launches have so many slices at least.
std::map<std::string, double> Shares(const SchedulerOptions& options,
                                     const std::vector<Load>& loads, double for_us,
                                     int least_slices = 1) {
  Simulation simulation(options);
  simulation.keeps_ends = false;
  if (least_slices > 1) {
    simulation.device.least_slices = least_slices;
    simulation.device.most_in_flight = 1;
  }
  std::map<std::string, double> shares;
  std::map<std::uint64_t, const Load*> load_of;
  const auto submit = [&](const Load& load) {
    const std::uint64_t id = simulation.Submit(simulation.MakeJob(load.us, load.tenant));
    load_of[id] = &load;
  };
  simulation.on_end = [&](std::uint64_t id, const Simulation::End& end) {
    const Load& load = *load_of.at(id);
    load_of.erase(id);
    shares[load.tenant] += ComputeUs(end.receipt);
    submit(load);
  };
  for (const Load& load : loads) {
    for (int i = 0; i < load.in_flight; ++i) submit(load);
  }
  simulation.RunFor(for_us);
  simulation.on_end = nullptr;
  return shares;
}

TEST(Fairness, HugeAndTinyJobsShareTheDeviceByWeight) {
  for (const double weight : {1.0, 3.0}) {
    SchedulerOptions options;
    options.queue.tenant_weights["huge"] = weight;
    auto shares = Shares(options, {{"huge", 50 * kMs, 2}, {"tiny", 20, 64}}, 20e6);
    EXPECT_NEAR(shares["huge"] / shares["tiny"], weight, 0.05 * weight);
  }
}

// A device whose launches cannot be as short as a slice makes a tenant pay for what they took.
TEST(Fairness, SlicesThatWereNotAskedForArePaidFor) {
  auto shares = Shares({}, {{"huge", 50 * kMs, 2}, {"tiny", 20, 64}}, 20e6, 4);
  EXPECT_NEAR(shares["huge"] / shares["tiny"], 1, 0.1);
}

// Slices beyond a turn's own cost nobody anything while nobody else waits.
TEST(Fairness, WhoWasAloneIsNotBehindAfterwards) {
  for (const bool goes_on : {false, true}) {
    Simulation simulation;
    simulation.keeps_ends = false;
    simulation.device.goes_on = goes_on;
    simulation.Submit(simulation.MakeJob(1000 * kMs, "alone at first"));
    simulation.RunFor(445 * kMs);  // in the middle of a launch
    std::map<std::uint64_t, double> computed_us;
    simulation.on_end = [&](std::uint64_t id, const Simulation::End& end) {
      computed_us[id] = ComputeUs(end.receipt);
    };
    const std::uint64_t second = simulation.Submit(simulation.MakeJob(100 * kMs, "second"));
    const TimeNs came = simulation.clock.Now();
    while (computed_us.count(second) == 0) simulation.RunFor(kMs);
    EXPECT_NEAR(static_cast<double>(simulation.clock.Now() - came) / 1e3, 200 * kMs, 8 * kMs);
    simulation.RunUntilIdle();
    EXPECT_EQ(computed_us.size(), 2u);
    simulation.on_end = nullptr;
  }
}

TEST(Fairness, ATenantWithMoreJobsGetsNoMore) {
  auto shares =
      Shares({}, {{"a", 100, 200}, {"b", 100, 4}, {"c", 1900, 8}, {"d", 7 * kMs, 3}}, 20e6);
  for (const auto& [tenant, us] : shares) EXPECT_NEAR(us, 5e6, 0.05 * 5e6) << tenant;
}

TEST(Fairness, BatchMatesAreChargedToTheirOwnTenants) {
  // Both tenants' rows share launches; the one that also has work of its own pays for its rows.
  Simulation simulation;
  simulation.keeps_ends = false;
  std::map<bool, double> us;
  std::map<std::uint64_t, bool> is_alone;
  std::function<void(const std::string&, bool)> submit = [&](const std::string& tenant,
                                                             bool alone) {
    std::unique_ptr<Job> job = alone ? simulation.MakeJob(500) : simulation.MakeRows(1, 9);
    job->tenant = tenant;
    is_alone[simulation.Submit(std::move(job))] = alone;
  };
  simulation.on_end = [&](std::uint64_t id, const Simulation::End& end) {
    const bool alone = is_alone.at(id);
    is_alone.erase(id);
    us[alone] += ComputeUs(end.receipt) / static_cast<double>(end.receipt.batch_requests);
    submit(alone ? "b" : "a", alone);
  };
  for (int i = 0; i < 32; ++i) submit("a", false);
  for (int i = 0; i < 8; ++i) submit("b", true);
  simulation.RunFor(5e6);
  simulation.on_end = nullptr;
  // a's rows go in batches whenever the device has a place; they can take no more than half.
  EXPECT_LE(us[false], us[true] * 1.05);
}

TEST(Priorities, HighGoesFirstAndLowIsServedAllTheSame) {
  SchedulerOptions options;
  options.queue.ageing = Ns(100 * kMs);
  Simulation simulation(options);
  // The high work is more than the device can do.
  std::function<void()> submit_high = [&] {
    simulation.Submit(simulation.MakeJob(1 * kMs, "", Priority::kHigh));
  };
  std::uint64_t low = 0;
  simulation.on_end = [&](std::uint64_t id, const Simulation::End&) {
    if (id != low) submit_high();
  };
  for (int i = 0; i < 20; ++i) submit_high();
  simulation.RunFor(10 * kMs);
  const TimeNs submitted = simulation.clock.Now();
  low = simulation.Submit(simulation.MakeJob(1 * kMs, "", Priority::kLow));
  simulation.RunFor(90 * kMs);
  EXPECT_EQ(simulation.ends.count(low), 0u);
  simulation.RunFor(1000 * kMs);
  simulation.on_end = nullptr;
  ASSERT_EQ(simulation.ends.count(low), 1u);
  // The ageing, then those that the device had, one of high priority, and itself.
  EXPECT_LE(simulation.ends.at(low).at - submitted, Ns((100 + 4) * kMs));
}

// A tenant keeps 1.5 s of work waiting, which is longer than the ageing of 1 s, then another one
// submits a single job: the milliseconds until that ends.
double WaitBehindABacklog(Priority hogs, Priority polite) {
  Simulation simulation;
  simulation.keeps_ends = false;
  std::function<void()> submit = [&] {
    simulation.Submit(simulation.MakeJob(1.9 * kMs, "hog", hogs));
  };
  simulation.on_end = [&](std::uint64_t, const Simulation::End&) { submit(); };
  for (int i = 0; i < 800; ++i) submit();
  simulation.RunFor(5000 * kMs);
  const TimeNs submitted = simulation.clock.Now();
  TimeNs ended = kNoDeadline;
  std::unique_ptr<Job> job = simulation.MakeJob(1 * kMs, "polite", polite);
  const std::uint64_t id = job->id;
  simulation.on_end = [&](std::uint64_t each, const Simulation::End& end) {
    if (each == id) ended = end.at;
    if (each != id) submit();
  };
  simulation.Submit(std::move(job));
  simulation.RunFor(2000 * kMs);
  simulation.on_end = nullptr;
  return static_cast<double>(ended - submitted) / 1e6;
}

// Ageing is for whoever waits behind higher priorities, and lifts nobody's backlog over others.
TEST(Priorities, AnAgedBacklogDelaysOthersByNoMoreThanItsTurn) {
  EXPECT_LE(WaitBehindABacklog(Priority::kNormal, Priority::kNormal), 10);
  EXPECT_LE(WaitBehindABacklog(Priority::kLow, Priority::kLow), 10);
  EXPECT_LE(WaitBehindABacklog(Priority::kLow, Priority::kNormal), 10);
  EXPECT_LE(WaitBehindABacklog(Priority::kNormal, Priority::kHigh), 10);
}

// Others wait under high priority until they have aged, and then get their turns.
TEST(Priorities, UnderALastingLoadEachHasItsShare) {
  SchedulerOptions options;
  options.queue.ageing = Ns(50 * kMs);
  Simulation simulation(options);
  simulation.keeps_ends = false;
  std::map<std::uint64_t, Priority> priority_of;
  std::map<Priority, double> served_us;
  const auto submit = [&](Priority priority) {
    const double us = priority == Priority::kHigh ? 300 : 1700;
    priority_of[simulation.Submit(simulation.MakeJob(us, "", priority))] = priority;
  };
  simulation.on_end = [&](std::uint64_t id, const Simulation::End& end) {
    const Priority priority = priority_of.at(id);
    priority_of.erase(id);
    served_us[priority] += ComputeUs(end.receipt);
    submit(priority);
  };
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    for (int i = 0; i < 400; ++i) submit(priority);
  }
  simulation.RunFor(20e6);
  simulation.on_end = nullptr;
  for (const auto& [priority, us] : served_us) EXPECT_NEAR(us, 20e6 / 3, 0.05 * 20e6);
}

// Jobs that are there at the same time: earliest deadline first meets every deadline that can be
// met by any order, so if one is missed, some set of deadlines could not be met together.
TEST(Deadlines, AreMissedOnlyWhereTheyCannotAllBeMet) {
  std::mt19937 random(3);
  int feasible_sets = 0;
  for (int set = 0; set < 300; ++set) {
    SchedulerOptions options;
    options.queue.ageing = Ns(1e9);
    Simulation simulation(options);
    simulation.Submit(simulation.MakeJob(100));
    simulation.Submit(simulation.MakeJob(100));
    struct Due {
      TimeNs deadline;
      double us;
    };
    std::vector<Due> jobs;
    const TimeNs now = simulation.clock.Now();
    for (int i = 0; i < 12; ++i) {
      const Due due = {now + Ns(200 + static_cast<double>(random() % 9000)),
                       1 + static_cast<double>(random() % 700)};
      std::unique_ptr<Job> job = simulation.MakeJob(due.us);
      job->deadline = due.deadline;
      jobs.push_back(due);
      simulation.Submit(std::move(job));
    }
    std::sort(jobs.begin(), jobs.end(),
              [](const Due& x, const Due& y) { return x.deadline < y.deadline; });
    bool is_feasible = true;
    TimeNs end = now + Ns(200);
    for (const Due& due : jobs) {
      end += Ns(due.us);
      // The scheduler looks when the job before the last ends: a nanosecond's rounding apart.
      if (end >= due.deadline - 1000) is_feasible = false;
    }
    if (!is_feasible) continue;
    ++feasible_sets;
    simulation.RunUntilIdle();
    for (const auto& [id, done] : simulation.ends) {
      EXPECT_TRUE(done.status.ok()) << "set " << set << ": " << done.status;
    }
  }
  EXPECT_GT(feasible_sets, 30);
}

TEST(Deadlines, EndAJobInTheQueueAtOnceThoughTheDeviceHangs) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(1900));
  simulation.Submit(simulation.MakeJob(1900));
  std::unique_ptr<Job> job = simulation.MakeJob(100);
  job->deadline = simulation.clock.Now() + Ns(1000);
  const std::uint64_t id = simulation.Submit(std::move(job));
  simulation.RunFor(899);
  EXPECT_EQ(simulation.ends.count(id), 0u);
  simulation.RunFor(2);
  ASSERT_EQ(simulation.ends.count(id), 1u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(simulation.ends.at(id).status));
  EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);
}

struct OverloadResult {
  double good_us = 0;
  int admitted = 0;
  int ended = 0;
  int on_time = 0;
  int refused = 0;
  std::size_t most_queued = 0;

  double on_time_part() const { return on_time / static_cast<double>(ended); }
};

// Poisson arrivals at three times what the device can do, each with a deadline, refused from the
// header where it cannot be met, as admission does. Payload comes within `payload_us` after that,
// and the scheduler is told to expect the job or not.
OverloadResult Overload(double payload_us, bool expects) {
  Simulation simulation;
  simulation.keeps_ends = false;
  std::mt19937_64 random(11);
  std::exponential_distribution<double> gap_us(1 / 100.0);
  std::uniform_real_distribution<double> cost_us(20, 580);  // 300 on average
  std::uniform_real_distribution<double> part(0, 1);
  OverloadResult result;
  std::map<std::uint64_t, double> us_of;
  simulation.on_end = [&](std::uint64_t id, const Simulation::End& end) {
    ++result.ended;
    if (end.status.ok()) {
      ++result.on_time;
      result.good_us += us_of.at(id);
    }
    us_of.erase(id);
  };
  struct Coming {
    std::unique_ptr<Job> job;
    ExpectedJob expected;
  };
  std::multimap<TimeNs, Coming> coming;
  const auto submit_until = [&](TimeNs time) {
    while (!coming.empty() && coming.begin()->first <= time) {
      simulation.RunUntil(coming.begin()->first);
      std::unique_ptr<Job> job = std::move(coming.begin()->second.job);
      coming.erase(coming.begin());
      us_of[job->id] = job->cost.device_us;
      simulation.Submit(std::move(job));
      result.most_queued = std::max(result.most_queued, simulation.scheduler.queued().jobs);
    }
    simulation.RunUntil(time);
  };
  TimeNs next = simulation.clock.Now();
  const TimeNs end = next + Ns(20e6);
  while (next < end) {
    submit_until(next);
    next += Ns(gap_us(random));
    const double us = cost_us(random);
    std::unique_ptr<Job> job = simulation.MakeJob(us, random() % 2 == 0 ? "a" : "b");
    job->deadline = simulation.clock.Now() +
                    Ns(us + payload_us + 20 * kMs + static_cast<double>(random() % 30000));
    const JobQueue::Newcomer newcomer = {job->tenant, job->priority, job->deadline, us, us};
    if (!simulation.scheduler.PredictWait(newcomer).ok()) {
      ++result.refused;
      continue;
    }
    ++result.admitted;
    const TimeNs at = simulation.clock.Now() + Ns(part(random) * payload_us);
    ExpectedJob expected = expects ? simulation.scheduler.Expect(newcomer) : ExpectedJob();
    coming.emplace(at, Coming{std::move(job), std::move(expected)});
  }
  submit_until(end + Ns(payload_us));
  simulation.RunUntilIdle();
  EXPECT_TRUE(simulation.refused.empty());
  EXPECT_EQ(result.ended, result.admitted);
  simulation.on_end = nullptr;
  return result;
}

TEST(Overload, GoodputStaysAndWhoIsLetInIsOnTime) {
  const OverloadResult result = Overload(0, false);
  EXPECT_GE(result.good_us, 0.95 * 20e6);
  EXPECT_GE(result.on_time_part(), 0.99);
  EXPECT_GT(result.refused, result.admitted);
  EXPECT_LT(result.most_queued, 400u);
}

// Without a word of what is to come, those whose payload is on its way take each other's time.
TEST(Overload, WhoIsLetInIsOnTimeThoughPayloadComesLater) {
  const OverloadResult result = Overload(30 * kMs, true);
  EXPECT_GE(result.good_us, 0.95 * 20e6);
  EXPECT_GE(result.on_time_part(), 0.99);
  EXPECT_LT(Overload(30 * kMs, false).on_time_part(), 0.9);
}

// Everything takes ten times as long as predicted: the limit falls, and waits stay bounded;
// when the trouble is over, it rises again.
TEST(Overload, TheLimitBacksOffBeforeWaitsExplode) {
  SchedulerOptions options;
  options.limit.max_us = 1e6;
  options.limit.min_us = 20e3;
  options.limit.floor_us = 1e3;
  Simulation simulation(options);
  simulation.keeps_ends = false;
  std::mt19937_64 random(5);
  double longest_wait_us = 0;
  simulation.on_end = [&](std::uint64_t, const Simulation::End& end) {
    const StageSpan& queue = end.receipt.spans[0];
    longest_wait_us = std::max(longest_wait_us, static_cast<double>(queue.end - queue.start) / 1e3);
  };
  const auto press = [&](double for_us) {
    longest_wait_us = 0;
    const TimeNs until = simulation.clock.Now() + Ns(for_us);
    while (simulation.clock.Now() < until) {
      simulation.RunFor(50);
      simulation.Submit(simulation.MakeJob(1000));
    }
    simulation.refused.clear();
  };
  press(3e6);
  EXPECT_DOUBLE_EQ(simulation.scheduler.statistics().queue_limit_us, 1e6);
  simulation.device.slowness = 10;
  press(60e6);
  EXPECT_LT(simulation.scheduler.statistics().queue_limit_us, 1e6 / 8);
  press(10e6);
  EXPECT_LT(longest_wait_us, 1.5e6);
  simulation.device.slowness = 1;
  press(30e6);
  EXPECT_DOUBLE_EQ(simulation.scheduler.statistics().queue_limit_us, 1e6);
  simulation.on_end = nullptr;
}

// Random events: submissions of every kind, cancellations, deadlines, failures. Launches of long
// jobs go on with further slices, or not.
class RandomEvents : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Launches, RandomEvents, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "GoOn" : "HaveOneSlice";
                         });

TEST_P(RandomEvents, NothingIsLostAndNothingEndsTwice) {
  SchedulerOptions options;
  options.bounds.jobs = 64;
  options.tenant_percent = 70;
  options.queue.max_rows = 16;
  options.queue.delay = Ns(100);
  options.queue.ageing = Ns(500);
  options.queue.tenant_weights["1"] = 2.5;
  Simulation simulation(options);
  simulation.keeps_ends = false;
  std::mt19937 random(2026);
  std::map<absl::StatusCode, std::size_t> ends;
  simulation.on_end = [&](std::uint64_t, const Simulation::End& end) { ++ends[end.status.code()]; };
  simulation.device.fails = [&](const DeviceLaunch&) {
    return random() % 50 == 0 ? absl::InternalError("broken") : absl::OkStatus();
  };
  simulation.device.pieces_ahead = 2;
  simulation.device.piece_us = 300;
  simulation.device.goes_on = GetParam();
  std::size_t pieces = 0;
  simulation.device.on_submit = [&](const DeviceLaunch& launch) { pieces += launch.is_ahead; };
  std::size_t submitted = 0;
  std::uint64_t last = 0;
  for (int event = 0; event < 500000; ++event) {
    switch (random() % 4) {
      case 0:
      case 1: {
        std::unique_ptr<Job> job;
        switch (random() % 4) {
          case 0:
            job = simulation.MakeJob(1 + random() % 100);
            break;
          case 1:
            job = simulation.MakeJob(2000 + random() % 9000);
            break;
          case 2:
            job = simulation.MakeRows(1 + random() % 15, 1 + random() % 3);
            break;
          default:
            job = simulation.MakeJob(1 + random() % 20);
            job->work.problem.n = testing::SimulatedDevice::kSmallN;
        }
        job->tenant = std::to_string(random() % 4);
        job->priority = static_cast<Priority>(random() % 3);
        if (random() % 3 == 0) {
          job->deadline = simulation.clock.Now() + Ns(static_cast<double>(random() % 20000));
        }
        last = simulation.Submit(std::move(job));
        if (simulation.refused.empty()) ++submitted;
        simulation.refused.clear();
        break;
      }
      case 2:
        if (last > 0)
          simulation.scheduler.Cancel(1 + last - random() % std::min<std::uint64_t>(last, 40));
        break;
      default:
        simulation.RunFor(static_cast<double>(random() % 800));
    }
  }
  simulation.RunUntilIdle();
  std::size_t ended = 0;
  for (const auto& [code, count] : ends) ended += count;
  EXPECT_EQ(ended, submitted);
  EXPECT_GT(pieces, 500u);
  for (const absl::StatusCode code :
       {absl::StatusCode::kOk, absl::StatusCode::kCancelled, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kInternal}) {
    EXPECT_GT(ends[code], 500u) << absl::StatusCodeToString(code);
  }
  const QueueUse use = simulation.scheduler.queued();
  EXPECT_EQ(use.jobs, 0u);
  EXPECT_EQ(use.bytes, 0u);
  EXPECT_EQ(use.rows, 0);
  EXPECT_EQ(use.us, 0);
  EXPECT_EQ(simulation.scheduler.predicted_backlog_us(), 0);
  EXPECT_TRUE(simulation.scheduler.WaitUntilIdle(0));
  simulation.on_end = nullptr;
}

}  // namespace
}  // namespace gemmd
