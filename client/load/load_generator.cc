#include "client/load/load_generator.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "client/load/mix.h"
#include "client/load/pacer.h"
#include "client/load/pauses.h"
#include "client/load/sample_log.h"

namespace gemmd::load {
namespace {

constexpr TimeNs kForever = kSecond * 31536000;

absl::Status Check(const LoadOptions& options, const std::vector<double>& weights) {
  const auto refuse = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (weights.empty() || weights.size() > 65535) {
    return refuse("the workload has ", weights.size(), " entries; it must have 1 to 65535");
  }
  for (const double weight : weights) {
    if (!(weight > 0)) return refuse("a weight is ", weight, "; it must be above 0");
  }
  if ((options.concurrency > 0) == options.arrivals.has_value()) {
    return refuse("a load is either a concurrency above 0 or a schedule of arrivals");
  }
  if (options.concurrency > 1000000) {
    return refuse("concurrency is ", options.concurrency, "; it must be 1 to 1000000");
  }
  if (options.arrivals && options.arrivals->kind != ArrivalKind::kReplay &&
      !(options.arrivals->rate_per_s > 0 && options.arrivals->rate_per_s <= 1e8)) {
    return refuse("the rate is ", options.arrivals->rate_per_s,
                  " requests/s; it must be above 0 and at most 100000000");
  }
  if (options.duration_ns && *options.duration_ns <= 0) {
    return refuse("the duration must be above 0");
  }
  if (options.warm_up_ns < 0 || options.tick_ns <= 0) {
    return refuse("the warm-up must not be negative, and a tick must be above 0");
  }
  if (options.stability.window_ns <= 0 || options.stability.max_windows < kAgreeing ||
      !(options.stability.bound > 0)) {
    return refuse("windows must be longer than 0, at least ", kAgreeing,
                  ", and agree within a bound above 0");
  }
  if (options.max_in_flight <= 0 || options.sending_threads < 0 || options.sending_threads > 256) {
    return refuse("max_in_flight is ", options.max_in_flight, " and sending_threads ",
                  options.sending_threads, "; they must be above 0, and 0 to 256");
  }
  return absl::OkStatus();
}

// One run. Its address is in every request's callback, so it outlives Drain(). Its fields stand by
// who uses them.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class Session {
 public:
  Session(const LoadOptions& options, const std::vector<double>& weights, Clock& clock,
          Transport& transport, const OnProgress& on_progress)
      : options_(options),
        mix_(weights, options.seed),
        clock_(clock),
        transport_(transport),
        on_progress_(on_progress),
        start_(clock.Now()),
        pauses_(options.concurrency) {}

  LoadRun Execute() {
    Start();
    Advance(options_.warm_up_ns, true);
    const CpuReading begin_cpu = options_.read_cpu ? options_.read_cpu() : CpuReading();
    run_.begin_ns = options_.warm_up_ns;
    if (options_.duration_ns || IsReplay()) {
      run_.end_ns = run_.begin_ns + options_.duration_ns.value_or(kForever);
      Advance(run_.end_ns, false);
      if (ended_) run_.end_ns = AllSent() ? AfterLastAnswer() : Elapsed();
    } else {
      MeasureWindows();
    }
    if (options_.read_cpu) run_.cpu = UsageBetween(begin_cpu, options_.read_cpu());
    Stop();
    return std::move(run_);
  }

 private:
  TimeNs Elapsed() const { return clock_.Now() - start_; }

  void Start() {
    if (!options_.arrivals) {
      for (int slot = 0; slot < options_.concurrency; ++slot)
        SendNext(static_cast<std::uint64_t>(slot), Elapsed());
      return;
    }
    const int senders = std::max(1, options_.sending_threads);
    for (int i = 0; i < senders; ++i) {
      pacers_.emplace_back(*options_.arrivals, i, senders, clock_, start_);
    }
    if (options_.sending_threads == 0) return;
    for (Pacer& pacer : pacers_) {
      threads_.emplace_back([this, &pacer] {
        Pace(pacer, kForever);
        if (pacer.exhausted()) ++exhausted_;
      });
    }
  }

  void Pace(Pacer& pacer, TimeNs until_ns) {
    pacer.RunUntil(
        until_ns, stopping_,
        [this](std::uint64_t index, TimeNs intended_ns) {
          Send(index, index, intended_ns, Elapsed());
        },
        [this] { return in_flight_ >= options_.max_in_flight; });
  }

  // For a closed loop: `lane` is one of its concurrency.
  void SendNext(std::uint64_t lane, TimeNs now_ns) { Send(next_index_++, lane, now_ns, now_ns); }

  void Send(std::uint64_t index, std::uint64_t lane, TimeNs intended_ns, TimeNs sent_ns) {
    Request request;
    request.index = index;
    request.lane = lane;
    request.entry = mix_.Pick(index);
    ++in_flight_;
    transport_.Send(request, [this, request, intended_ns, sent_ns](const Reply& reply) {
      Finish(request, intended_ns, sent_ns, reply);
    });
  }

  void Finish(const Request& request, TimeNs intended_ns, TimeNs sent_ns, const Reply& reply) {
    Sample sample;
    sample.intended_ns = intended_ns;
    sample.sent_ns = sent_ns;
    sample.completed_ns = Elapsed();
    sample.stage_us = reply.stage_us;
    sample.batch_requests = reply.batch_requests;
    sample.entry = request.entry;
    sample.code = static_cast<std::uint8_t>(reply.code);
    log_.Add(request.lane, sample);
    --in_flight_;
    if (options_.arrivals || stopping_) return;
    if (!pauses_.Begin(request.lane, reply.code, sample.completed_ns)) {
      SendNext(request.lane, sample.completed_ns);
    }
  }

  // Goes on until `until_ns`, reporting at every tick, or until the run ends early.
  void Advance(TimeNs until_ns, bool warming_up) {
    while (!ended_ && Elapsed() < until_ns) {
      const TimeNs tick_ns = std::min(until_ns, Elapsed() + options_.tick_ns);
      if (!pacers_.empty() && options_.sending_threads == 0) Pace(pacers_[0], tick_ns);
      SleepUntil(tick_ns);
      Collect(warming_up);
    }
  }

  // Sends for the lanes whose pause ends meanwhile.
  void SleepUntil(TimeNs time_ns) {
    if (options_.arrivals) return clock_.SleepUntil(start_ + time_ns);
    constexpr TimeNs kPollNs = kSecond / 200;
    for (TimeNs now_ns = Elapsed(); now_ns < time_ns; now_ns = Elapsed()) {
      clock_.SleepUntil(start_ + std::min(time_ns, now_ns + kPollNs));
      for (const std::uint64_t lane : pauses_.Over(Elapsed())) SendNext(lane, Elapsed());
    }
  }

  void Collect(bool warming_up) {
    Progress progress;
    log_.MoveTo(progress.recent);
    run_.samples.insert(run_.samples.end(), progress.recent.begin(), progress.recent.end());
    progress.elapsed_ns = Elapsed();
    progress.warming_up = warming_up;
    progress.in_flight = static_cast<std::uint64_t>(std::max<std::int64_t>(0, in_flight_));
    if (on_progress_ && !on_progress_(progress)) End("it was interrupted");
    if (run_.samples.size() >= options_.max_samples) {
      End(absl::StrCat("its ", options_.max_samples, " samples are full"));
    }
    if (AllSent() && in_flight_ == 0) End("");  // a replay's own end
  }

  bool AllSent() const {
    if (pacers_.empty()) return false;
    if (options_.sending_threads == 0) return pacers_[0].exhausted();
    return exhausted_ == options_.sending_threads;
  }

  bool IsReplay() const {
    return options_.arrivals && options_.arrivals->kind == ArrivalKind::kReplay;
  }

  TimeNs AfterLastAnswer() const {
    TimeNs last_ns = 0;
    for (const Sample& sample : run_.samples) last_ns = std::max(last_ns, sample.completed_ns);
    return last_ns + 1;
  }

  void End(std::string why) {
    if (ended_) return;
    ended_ = true;
    run_.ended_early = std::move(why);
  }

  // The measured interval is the last three windows.
  void MeasureWindows() {
    const StabilityOptions& stability = options_.stability;
    run_.stable = false;
    TimeNs end_ns = options_.warm_up_ns;
    for (int i = 0; i < stability.max_windows && !ended_ && !*run_.stable; ++i) {
      const TimeNs begin_ns = std::exchange(end_ns, end_ns + stability.window_ns);
      Advance(end_ns, false);
      if (ended_) break;
      run_.windows.push_back(WindowOf(run_.samples, begin_ns, end_ns));
      run_.stable = LastWindowsAgree(run_.windows, stability.bound);
    }
    run_.end_ns = ended_ ? Elapsed() : end_ns;
    run_.begin_ns = std::max(run_.begin_ns, end_ns - kAgreeing * stability.window_ns);
  }

  void Stop() {
    // A run that ended during its warm-up has measured nothing.
    run_.begin_ns = std::min(run_.begin_ns, run_.end_ns);
    stopping_ = true;
    for (std::thread& thread : threads_) thread.join();
    for (Pacer& pacer : pacers_) {
      pacer.VisitUnsent(run_.end_ns, [this](std::uint64_t index, TimeNs intended_ns) {
        // Due, and only a thread's waking was in its way.
        if (in_flight_ < options_.max_in_flight) return Send(index, index, intended_ns, Elapsed());
        Sample sample;
        sample.intended_ns = intended_ns;
        sample.sent_ns = run_.end_ns;
        sample.completed_ns = run_.end_ns;
        sample.entry = mix_.Pick(index);
        sample.code = kNotSent;
        run_.samples.push_back(sample);
      });
    }
    transport_.Drain();
    log_.MoveTo(run_.samples);
    run_.pauses = pauses_.Take();
  }

  const LoadOptions& options_;
  const Mix mix_;
  Clock& clock_;
  Transport& transport_;
  const OnProgress& on_progress_;
  const TimeNs start_;

  std::atomic<bool> stopping_ = false;
  std::atomic<std::int64_t> in_flight_ = 0;
  std::atomic<std::uint64_t> next_index_ = 0;
  std::atomic<int> exhausted_ = 0;
  SampleLog log_;
  Pauses pauses_;

  // Used by the calling thread alone.
  LoadRun run_;
  bool ended_ = false;
  std::deque<Pacer> pacers_;  // each its thread's own until that has been joined
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<LoadRun> GenerateLoad(const LoadOptions& options, const std::vector<double>& weights,
                                     Clock& clock, Transport& transport,
                                     const OnProgress& on_progress) {
  if (absl::Status status = Check(options, weights); !status.ok()) return status;
  return Session(options, weights, clock, transport, on_progress).Execute();
}

}  // namespace gemmd::load
