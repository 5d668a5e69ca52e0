#include "client/load/load_generator.h"

#include <cmath>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/time/units.h"
#include "client/load/random.h"
#include "client/load/results/summary.h"
#include "client/load/stability.h"
#include "gmock/gmock.h"
#include "tests/client/load/simulation.h"

namespace gemmd::load {
namespace {

using ::gemmd::testing::OneByOne;
using ::gemmd::testing::Simulation;
using ::testing::HasSubstr;

LoadOptions Closed(int concurrency) {
  LoadOptions options;
  options.concurrency = concurrency;
  options.duration_ns = 10 * kSecond;
  return options;
}

LoadOptions Open(ArrivalKind kind, double rate_per_s) {
  LoadOptions options;
  options.arrivals.emplace();
  options.arrivals->kind = kind;
  options.arrivals->rate_per_s = rate_per_s;
  options.duration_ns = 10 * kSecond;
  options.sending_threads = 0;
  return options;
}

LoadRun Generate(const LoadOptions& options, Simulation& simulation,
                 const std::vector<double>& weights = {1}) {
  absl::StatusOr<LoadRun> run = GenerateLoad(options, weights, simulation, simulation);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : LoadRun();
}

Summary Figures(const LoadRun& run) { return Summarize(run, {EntryCost()}); }

// The server's true delays: an exponential distribution, whose every quantile comes once
// in `period` requests, in shuffled order.
TimeNs ExponentialDelay(std::uint64_t index, std::uint64_t period, double mean_ms) {
  const std::uint64_t place = index * 7919 % period;  // 7919 is prime to the period
  const double share = (static_cast<double>(place) + 0.5) / static_cast<double>(period);
  return std::llround(-std::log(1 - share) * mean_ms * kMillisecond);
}

void ExpectPercentilesOfExponential(const Latency& latency, double mean_ms) {
  const auto truth_us = [mean_ms](double share) { return -std::log(1 - share) * mean_ms * 1e3; };
  EXPECT_NEAR(latency.p50_us / truth_us(0.5), 1, 0.01);
  EXPECT_NEAR(latency.p90_us / truth_us(0.9), 1, 0.01);
  EXPECT_NEAR(latency.p99_us / truth_us(0.99), 1, 0.01);
  EXPECT_NEAR(latency.p999_us / truth_us(0.999), 1, 0.01);
  EXPECT_NEAR(latency.mean_us / (mean_ms * 1e3), 1, 0.01);
}

TEST(LoadGenerator, AnOpenLoopReportsTheTruePercentiles) {
  for (const ArrivalKind kind : {ArrivalKind::kConstant, ArrivalKind::kPoisson}) {
    Simulation simulation([](const Request& request, TimeNs) {
      return Simulation::Answer{ExponentialDelay(request.index, 10000, 5), {}};
    });
    const Summary summary = Figures(Generate(Open(kind, 5000), simulation));
    ExpectPercentilesOfExponential(summary.latency, 5);
    EXPECT_NEAR(summary.requests_per_s / 5000, 1, 0.02);
    EXPECT_EQ(summary.ok, summary.requests);
  }
}

TEST(LoadGenerator, AClosedLoopReportsTheTruePercentiles) {
  Simulation simulation([](const Request& request, TimeNs) {
    return Simulation::Answer{ExponentialDelay(request.index, 10000, 5), {}};
  });
  LoadOptions options = Closed(50);
  options.duration_ns = 50 * kSecond;
  const Summary summary = Figures(Generate(options, simulation));
  ExpectPercentilesOfExponential(summary.latency, 5);
  EXPECT_NEAR(summary.requests_per_s / 10000, 1, 0.01);  // 50 in flight, 5 ms each
}

// Answers within 1 ms, but nothing for a second from `begin_ns` on.
Simulation::Script Stalls(TimeNs begin_ns) {
  return [begin_ns](const Request&, TimeNs now_ns) {
    const TimeNs end_ns = begin_ns + kSecond;
    const bool stalled = now_ns >= begin_ns && now_ns < end_ns;
    return Simulation::Answer{(stalled ? end_ns - now_ns : 0) + kMillisecond, {}};
  };
}

// The request that follows an answer goes where that came from, so that connections do not wait for
// each other.
TEST(LoadGenerator, AClosedLoopHasOneRequestInEachLane) {
  std::map<std::uint64_t, TimeNs> free_at;
  Simulation simulation([&](const Request& request, TimeNs now_ns) {
    EXPECT_LE(free_at[request.lane], now_ns) << "lane " << request.lane;
    const TimeNs delay_ns = ExponentialDelay(request.index, 1000, 5) + 1;
    free_at[request.lane] = now_ns + delay_ns;
    return Simulation::Answer{delay_ns, {}};
  });
  LoadOptions options = Closed(7);
  options.duration_ns = kSecond;
  Generate(options, simulation);
  EXPECT_EQ(free_at.size(), 7u);
  EXPECT_EQ(free_at.rbegin()->first, 6u);
}

TEST(LoadGenerator, AnOpenLoopTakesLanesInTurn) {
  std::set<std::uint64_t> lanes;
  Simulation simulation([&](const Request& request, TimeNs) {
    lanes.insert(request.lane);
    return Simulation::Answer{kMillisecond, {}};
  });
  LoadOptions options = Open(ArrivalKind::kConstant, 100);
  options.duration_ns = kSecond;
  Generate(options, simulation);
  EXPECT_EQ(lanes.size(), simulation.sent());
}

TEST(LoadGenerator, AStallOfASecondIsInTheOpenLoopsP999) {
  Simulation simulation(Stalls(20 * kSecond));
  LoadOptions options = Open(ArrivalKind::kConstant, 1000);
  options.duration_ns = 60 * kSecond;
  const Summary summary = Figures(Generate(options, simulation));
  EXPECT_EQ(summary.requests, 60000U);
  // A thousand waited 1001, 1000, ... 2 ms; the 60 slowest of all are above p99.9.
  EXPECT_NEAR(summary.latency.p999_us / 941e3, 1, 0.01);
  EXPECT_NEAR(summary.latency.max_us / 1001e3, 1, 0.001);
  EXPECT_NEAR(summary.latency.p50_us / 1e3, 1, 0.001);
}

TEST(LoadGenerator, LatencyCountsFromTheDueTimeWhereASenderIsHeldBack) {
  // Ten in flight at most: during the stall nearly all wait on this side.
  Simulation simulation(Stalls(20 * kSecond));
  LoadOptions options = Open(ArrivalKind::kConstant, 1000);
  options.duration_ns = 60 * kSecond;
  options.max_in_flight = 10;
  const Summary summary = Figures(Generate(options, simulation));
  EXPECT_GE(summary.latency.p999_us, 941e3 * 0.99);
  EXPECT_EQ(summary.not_sent, 0U);
  EXPECT_GT(summary.late_p99_us, 1e5);
  EXPECT_LT(summary.service.p90_us, 2e3);  // what a loop that coordinates would have seen
}

TEST(LoadGenerator, ErrorsAreCountedExactlyByCode) {
  std::map<std::string, std::uint64_t> truth;
  const auto script = [&truth](const Request& request, TimeNs now_ns) {
    Simulation::Answer answer{kMillisecond, {}};
    if (request.index % 33 == 0) answer.reply.code = absl::StatusCode::kResourceExhausted;
    if (request.index % 1000 == 7) answer.reply.code = absl::StatusCode::kUnavailable;
    if (now_ns >= kSecond && now_ns < 11 * kSecond) {
      ++truth[absl::StatusCodeToString(answer.reply.code)];
    }
    return answer;
  };
  Simulation simulation(script);
  const Summary summary = Figures(Generate(Open(ArrivalKind::kPoisson, 3000), simulation));
  EXPECT_EQ(summary.ok, truth["OK"]);
  truth.erase("OK");
  EXPECT_EQ(truth.size(), 2U);
  EXPECT_EQ(summary.errors, truth);
  EXPECT_EQ(summary.error_count(), truth["RESOURCE_EXHAUSTED"] + truth["UNAVAILABLE"]);
}

TEST(LoadGenerator, OverloadGoesOnMeasuringAndLosesNothing) {
  Simulation simulation{OneByOne(10 * kMillisecond)};  // 100 requests/s
  LoadOptions options = Open(ArrivalKind::kConstant, 200);
  options.max_in_flight = 50;
  const LoadRun run = Generate(options, simulation);
  const Summary summary = Figures(run);
  EXPECT_EQ(summary.requests, 2000U);  // due in ten seconds
  EXPECT_NEAR(summary.requests_per_s, 100, 1);
  EXPECT_GT(summary.not_sent, 800U);
  EXPECT_EQ(summary.ok + summary.not_sent, summary.requests);
  EXPECT_EQ(run.samples.size(), simulation.sent() + summary.not_sent);
  // 50 are before the server at most, for 10 ms each.
  EXPECT_GT(summary.service.max_us, 490e3);
  EXPECT_LE(summary.service.max_us, 500e3);
  // Due in the last second, after eleven of them half is still to come.
  EXPECT_GT(summary.latency.max_us, 4.9e6);
}

TEST(LoadGenerator, TheWarmUpIsNotMeasured) {
  Simulation simulation([](const Request&, TimeNs now_ns) {
    return Simulation::Answer{now_ns < 3 * kSecond ? 80 * kMillisecond : kMillisecond, {}};
  });
  LoadOptions options = Open(ArrivalKind::kConstant, 100);
  options.warm_up_ns = 3 * kSecond;
  const Summary summary = Figures(Generate(options, simulation));
  EXPECT_EQ(summary.requests, 1000U);
  EXPECT_EQ(summary.latency.max_us, 1e3);
}

TEST(LoadGenerator, MeasuresTheFirstThreeWindowsThatAgree) {
  // Speeds up by a half every second until the sixth.
  Simulation simulation([](const Request&, TimeNs now_ns) {
    const int second = static_cast<int>(std::min<TimeNs>(6, now_ns / kSecond));
    return Simulation::Answer{std::llround(kMillisecond * std::pow(1.5, 6 - second)), {}};
  });
  LoadOptions options = Closed(4);
  options.duration_ns.reset();
  options.warm_up_ns = 0;
  const LoadRun run = Generate(options, simulation);
  EXPECT_EQ(run.stable, true);
  EXPECT_EQ(run.begin_ns, 6 * kSecond);
  EXPECT_EQ(run.end_ns, 9 * kSecond);
  EXPECT_EQ(run.windows.size(), 9U);
  EXPECT_NEAR(Figures(run).requests_per_s, 4000, 40);
}

TEST(Stability, WindowsWithoutAnswersAgreeWithNothing) {
  EXPECT_FALSE(LastWindowsAgree(std::vector<WindowStatistics>(3), 0.1));
  std::vector<WindowStatistics> windows(3, {10, 100, 5});
  EXPECT_TRUE(LastWindowsAgree(windows, 0.1));
  windows.back().p50_us = 6;
  EXPECT_FALSE(LastWindowsAgree(windows, 0.1));
}

TEST(LoadGenerator, SaysWhereNoWindowsAgree) {
  Simulation simulation([](const Request&, TimeNs now_ns) {
    return Simulation::Answer{now_ns / kSecond % 2 == 0 ? kMillisecond : 3 * kMillisecond, {}};
  });
  LoadOptions options = Closed(4);
  options.duration_ns.reset();
  options.stability.max_windows = 8;
  const LoadRun run = Generate(options, simulation);
  EXPECT_EQ(run.stable, false);
  EXPECT_EQ(run.windows.size(), 8U);
}

TEST(LoadGenerator, AReplayKeepsItsTimesAndEndsItself) {
  Simulation simulation([](const Request&, TimeNs) {
    return Simulation::Answer{kMillisecond, {}};
  });
  LoadOptions options = Open(ArrivalKind::kReplay, 0);
  options.arrivals->replay_ns = {0, 5 * kMillisecond, 5 * kMillisecond, 700 * kMillisecond};
  options.warm_up_ns = 0;
  options.duration_ns.reset();
  const LoadRun run = Generate(options, simulation);
  std::multiset<TimeNs> times;
  for (const Sample& sample : run.samples) {
    times.insert(sample.intended_ns);
    EXPECT_EQ(sample.sent_ns, sample.intended_ns);
  }
  EXPECT_EQ(times,
            (std::multiset<TimeNs>{0, 5 * kMillisecond, 5 * kMillisecond, 700 * kMillisecond}));
  EXPECT_EQ(run.end_ns, 701 * kMillisecond + 1);
  EXPECT_EQ(run.ended_early, "");
}

TEST(LoadGenerator, TheMixFollowsItsWeightsAndItsSeed) {
  const auto script = [](const Request&, TimeNs) { return Simulation::Answer{kMillisecond, {}}; };
  const auto entries = [&script](std::uint64_t seed) {
    Simulation simulation(script);
    LoadOptions options = Open(ArrivalKind::kConstant, 1000);
    options.seed = seed;
    return Summarize(Generate(options, simulation, {1, 2, 5}), {{}, {}, {}}).entries;
  };
  auto counts = entries(1);
  EXPECT_NEAR(static_cast<double>(counts[0]) / 10000, 1.0 / 8, 0.01);
  EXPECT_NEAR(static_cast<double>(counts[2]) / 10000, 5.0 / 8, 0.02);
  EXPECT_EQ(entries(1), counts);
  EXPECT_NE(entries(2), counts);
}

TEST(LoadGenerator, FiguresCountBytesFlopsStagesAndBatches) {
  Simulation simulation([](const Request& request, TimeNs) {
    Simulation::Answer answer{kMillisecond, {}};
    answer.reply.stage_us[kCompute] = request.index % 2 == 0 ? 100 : 300;
    answer.reply.batch_requests = request.index % 4 == 0 ? 8 : 1;
    return answer;
  });
  const LoadRun run = Generate(Open(ArrivalKind::kConstant, 1000), simulation);
  const Summary summary = Summarize(run, {EntryCost{3000, 1000, 2e6}});
  EXPECT_NEAR(summary.gb_per_s, 1000 * 4000 / 1e9, 1e-7);
  EXPECT_NEAR(summary.tflops, 1000 * 2e6 / 1e12, 1e-7);
  EXPECT_NEAR(summary.stage_mean_us[kCompute], 200, 1e-6);
  EXPECT_EQ(summary.batch_requests.at(8), 2500U);
  EXPECT_EQ(summary.batch_requests.at(1), 7500U);
}

// Figures are of the time from the beginning of measurement up to, and without, its end.
TEST(LoadGenerator, FiguresAreOfWhatWasDueInTheMeasuredTime) {
  LoadRun run;
  run.begin_ns = kMillisecond;
  run.end_ns = 3 * kMillisecond;
  for (const TimeNs due :
       {kMillisecond - 1, kMillisecond, 3 * kMillisecond - 1, 3 * kMillisecond}) {
    Sample& sample = run.samples.emplace_back();
    sample.intended_ns = sample.sent_ns = sample.completed_ns = due;
  }
  const Summary summary = Figures(run);
  EXPECT_EQ(summary.requests, 2U);
  EXPECT_DOUBLE_EQ(summary.requests_per_s, 1000);
}

TEST(LoadGenerator, EndsWhenTheSamplesAreFullOrTheCallerSaysSo) {
  const auto script = [](const Request&, TimeNs) { return Simulation::Answer{kMillisecond, {}}; };
  Simulation simulation(script);
  LoadOptions options = Open(ArrivalKind::kConstant, 1000);
  options.max_samples = 3000;
  EXPECT_THAT(Generate(options, simulation).ended_early, HasSubstr("3000 samples are full"));

  Simulation other(script);
  options.max_samples = 1000000;
  const auto run = GenerateLoad(options, {1}, other, other, [](const Progress& progress) {
    return progress.elapsed_ns < 4 * kSecond;
  });
  EXPECT_EQ(run->ended_early, "it was interrupted");
  EXPECT_EQ(Figures(*run).requests, 3000U);
}

TEST(LoadGenerator, RefusesWhatItCannotDo) {
  Simulation simulation(nullptr);
  const auto refusal = [&simulation](const LoadOptions& options,
                                     const std::vector<double>& weights = {1}) {
    return std::string(GenerateLoad(options, weights, simulation, simulation).status().message());
  };
  EXPECT_THAT(refusal(Closed(1), {}), HasSubstr("0 entries"));
  EXPECT_THAT(refusal(Closed(1), {1, 0}), HasSubstr("a weight is 0"));
  EXPECT_THAT(refusal(Closed(0)), HasSubstr("either a concurrency"));
  LoadOptions both = Open(ArrivalKind::kPoisson, 1);
  both.concurrency = 1;
  EXPECT_THAT(refusal(both), HasSubstr("either a concurrency"));
  EXPECT_THAT(refusal(Open(ArrivalKind::kPoisson, 0)), HasSubstr("the rate is 0"));
}

// Answers from a thread of its own, as gRPC does.
class Threaded final : public Transport {
 public:
  Threaded() : thread_([this] { Answer(); }) {}
  ~Threaded() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Send(const Request& request, Done done) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    indices.insert(request.index);
    waiting_.push_back(std::move(done));
    ++unanswered_;
    changed_.notify_all();
  }

  void Drain() override {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return unanswered_ == 0; });
  }

  std::multiset<std::uint64_t> indices;

 private:
  void Answer() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Done done = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      done({});
      lock.lock();
      --unanswered_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Done> waiting_;
  int unanswered_ = 0;
  bool over_ = false;
  std::thread thread_;
};

TEST(LoadGenerator, SeveralSendersShareOneSchedule) {
  LoadOptions options = Open(ArrivalKind::kReplay, 0);
  options.arrivals->replay_ns.assign(3001, 0);
  options.warm_up_ns = 0;
  options.duration_ns.reset();
  options.sending_threads = 3;
  options.tick_ns = kMillisecond;
  SteadyClock clock;
  Threaded transport;
  const auto run = GenerateLoad(options, {1}, clock, transport);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->samples.size(), 3001U);
  EXPECT_EQ(transport.indices.size(), 3001U);
  EXPECT_EQ(std::set<std::uint64_t>(transport.indices.begin(), transport.indices.end()).size(),
            3001U);
}

}  // namespace
}  // namespace gemmd::load
