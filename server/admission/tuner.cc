#include "server/admission/tuner.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/admission/tuning_operand.h"
#include "server/scheduling/draining.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kSeedA = 1;
constexpr std::uint64_t kSeedB = 2;

// The clock's resolution: a plan's file takes no time of 0.
constexpr double kLeastUs = 1e-3;

// Returns whether the error ends the tuning, as against the trial of one plan.
bool EndsTuning(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsUnavailable(status) ||
         absl::IsResourceExhausted(status);
}

double ComputeUs(const Receipt& receipt) {
  TimeNs sum = 0;
  for (const StageSpan& span : receipt.spans) {
    if (span.stage == Stage::kCompute) sum += span.end - span.start;
  }
  return std::max(static_cast<double>(sum) / 1e3, kLeastUs);
}

bool IsSame(const Plan& x, const Plan& y) { return x.kernel == y.kernel && x.config == y.config; }

// Returns whether selection would choose the plan once it was measured: a batch-invariant choice
// keeps its bits. Selection itself is asked, so that its rule stands in one place.
bool MayServe(const Registry& registry, const Problem& problem, const DeviceTraits& traits,
              const Plan& plan) {
  PlanCache only_this;
  if (!only_this.Insert(problem, traits, {plan.kernel->traits().name, plan.config, kLeastUs})
           .ok()) {
    return false;
  }
  const absl::StatusOr<Plan> chosen = Select(registry, problem, traits, {}, &only_this);
  return chosen.ok() && IsSame(*chosen, plan);
}

TunedCandidate Rejected(const Kernel& kernel, std::string plan, absl::string_view reason) {
  TunedCandidate candidate;
  candidate.kernel = kernel.traits().name;
  candidate.plan = std::move(plan);
  candidate.rejection = std::string(reason);
  return candidate;
}

}  // namespace

struct Tuner::Operands {
  HostPiece a;
  HostPiece b;
};

Tuner::~Tuner() {
  cancelled_ = true;
  std::thread last;
  {
    const MutexLock lock(mutex_);
    last = std::move(thread_);
  }
  if (last.joinable()) last.join();  // without the lock, which its end takes
}

absl::Status Tuner::Start(std::uint64_t id, TuningRequest request, Callback done) {
  const MutexLock lock(mutex_);
  if (running_) {
    return WithRetryAfter(
        absl::ResourceExhaustedError("another call is tuning; one does at a time"),
        WaitsFor::kClients);
  }
  if (thread_.joinable()) thread_.join();  // it has no more to do than to return
  running_ = true;
  running_id_ = id;
  cancelled_ = false;
  thread_ = std::thread([this, request = std::move(request), done = std::move(done)]() mutable {
    absl::StatusOr<TuningReport> report = Run(request);
    if (absl::Status saved = Save(); report.ok() && !saved.ok()) report = std::move(saved);
    {
      // Before the answer, whose reader may tune again at once.
      const MutexLock end(mutex_);
      running_ = false;
      CountLocked(report);
    }
    std::move(done)(std::move(report));
  });
  return absl::OkStatus();
}

void Tuner::CountLocked(const absl::StatusOr<TuningReport>& report) {
  ++(report.ok() ? counts_.finished : counts_.failed);
  if (!report.ok()) return;
  for (const std::vector<TunedCandidate>& candidates : report->problems) {
    for (const TunedCandidate& each : candidates) {
      ++(each.rejection.empty() ? counts_.measured_plans : counts_.rejected_plans);
    }
  }
}

Tuner::Counts Tuner::counts() const {
  const MutexLock lock(mutex_);
  Counts counts = counts_;
  counts.is_running = running_;
  return counts;
}

void Tuner::Cancel(std::uint64_t id) {
  const MutexLock lock(mutex_);
  if (running_ && running_id_ == id) cancelled_ = true;
}

absl::StatusOr<TuningReport> Tuner::Run(const TuningRequest& request) {
  TuningReport report;
  report.device = served().device->traits().name;
  for (const Problem& problem : request.problems) {
    auto candidates = TuneProblem(request, problem);
    if (!candidates.ok()) return candidates.status();
    report.problems.push_back(*std::move(candidates));
  }
  return report;
}

absl::StatusOr<std::vector<TunedCandidate>> Tuner::TuneProblem(const TuningRequest& request,
                                                               const Problem& problem) {
  Device& device = *served().device;
  const DeviceTraits& traits = device.traits();
  const Problem landed = device.Landed(problem);
  const Registry& registry = *sources_.registry;
  absl::StatusOr<HostPiece> a = RandomOperand(problem.a, kSeedA, &device);
  if (!a.ok()) return a.status();
  absl::StatusOr<HostPiece> b = RandomOperand(problem.b, kSeedB, &device);
  if (!b.ok()) return b.status();
  const Operands operands{*std::move(a), *std::move(b)};
  std::vector<TunedCandidate> tuned;
  MeasuredPlan best;
  std::size_t best_index = 0;
  for (const Candidate& legal : Explain(registry, landed, traits)) {
    const Kernel& kernel = *legal.kernel;
    if (!legal.rejection.empty()) {
      tuned.push_back(Rejected(kernel, "", legal.rejection));
      continue;
    }
    for (const Config& config : kernel.Alternatives(landed, traits)) {
      Plan plan = legal.plan;
      plan.config = config;
      plan.predicted_us = kernel.PredictedUs(landed, config, traits);
      plan.workspace_bytes = kernel.WorkspaceBytes(landed, config);
      plan.numerics_id = kernel.PlannedNumericsId(landed, config);
      if (!MayServe(registry, landed, traits, plan)) {
        tuned.push_back(Rejected(kernel, ToString(config),
                                 "would change the bits of what serves the problem unmeasured"));
        continue;
      }
      const absl::StatusOr<double> us = Measure(request, problem, plan, operands);
      if (EndsTuning(us.status())) return us.status();
      if (!us.ok()) {
        tuned.push_back(Rejected(kernel, ToString(config), us.status().message()));
        continue;
      }
      tuned.push_back({kernel.traits().name, ToString(config), *us, false, ""});
      if (best.kernel.empty() || *us < best.measured_us) {
        best = {kernel.traits().name, config, *us};
        best_index = tuned.size() - 1;
      }
    }
  }
  if (best.kernel.empty()) return tuned;
  tuned[best_index].chosen = true;
  if (absl::Status s = sources_.plans->Insert(landed, traits, std::move(best)); !s.ok()) return s;
  return tuned;
}

absl::StatusOr<double> Tuner::Measure(const TuningRequest& request, const Problem& problem,
                                      const Plan& plan, const Operands& operands) {
  const absl::StatusOr<double> warm_up = LaunchOnce(request.tenant, problem, plan, operands);
  if (!warm_up.ok()) return warm_up.status();
  std::vector<double> times;
  for (int i = 0; i < request.repeats; ++i) {
    const absl::StatusOr<double> us = LaunchOnce(request.tenant, problem, plan, operands);
    if (!us.ok()) return us.status();
    times.push_back(*us);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

absl::StatusOr<double> Tuner::LaunchOnce(const std::string& tenant, const Problem& problem,
                                         const Plan& plan, const Operands& operands) {
  if (cancelled_) return absl::CancelledError("tuning was cancelled");
  if (sources_.router->draining()) return DrainingError();
  Device& device = *served().device;
  const Footprint footprint = device.FootprintOf(problem, plan, {});
  const std::uint64_t limit_bytes = device.memory().usage().limit_bytes;
  if (footprint.in_flight_bytes > limit_bytes ||
      footprint.workspace_bytes > limit_bytes - footprint.in_flight_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs ", footprint.in_flight_bytes, " bytes and ", footprint.workspace_bytes,
                     " of workspace, and ", device.traits().name, " has ", limit_bytes));
  }
  auto job = std::make_unique<Job>();
  absl::StatusOr<MemoryReservation> reservation =
      device.memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
  if (!reservation.ok()) return reservation.status();
  job->reservation = *std::move(reservation);
  absl::StatusOr<HostBuffer> d = device.AllocateResult(problem.d);
  if (!d.ok()) return d.status();

  job->id = sources_.admission->NextRequestId();
  job->tenant = tenant;
  job->priority = Priority::kLow;
  // Without it the launch would not be cut. The model does not learn from it: plans that serve
  // nobody say nothing of those that do.
  const Cost predicted = served().scheduler->cost().Predict(problem, plan, Residency());
  job->cost.device_us = predicted.device_us;
  job->cost.least_us = predicted.least_us;
  job->is_measurement = true;
  job->work.problem = problem;
  job->work.plan = plan;
  job->work.buffers[WorkPlane::kA] = operands.a.data;
  job->work.buffers[WorkPlane::kB] = operands.b.data;
  job->work.buffers.d = *std::move(d);
  std::promise<absl::StatusOr<double>> finished;
  std::future<absl::StatusOr<double>> result = finished.get_future();
  job->done = [finished = std::move(finished)](absl::Status status,
                                               const Receipt& receipt) mutable {
    if (status.ok()) {
      finished.set_value(ComputeUs(receipt));
    } else {
      finished.set_value(std::move(status));
    }
  };
  if (absl::Status s = served().scheduler->Submit(std::move(job)); !s.ok()) return s;
  return result.get();
}

absl::Status Tuner::Save() const {
  if (sources_.plan_cache_file.empty()) return absl::OkStatus();
  absl::Status status = sources_.plans->Save(sources_.plan_cache_file, PlanVersion());
  if (status.ok()) return status;
  // Not UNAVAILABLE, which a client would answer by tuning again.
  return absl::FailedPreconditionError(
      absl::StrCat("the plans serve from now on, but tuning.plan_cache_file was not written: ",
                   status.message()));
}

}  // namespace gemmd
