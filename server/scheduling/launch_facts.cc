#include "server/scheduling/launch_facts.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace gemmd {
namespace {

// Devices have schedulers of their own, and what reads receipts knows several devices.
std::uint64_t NextLaunch() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// Returns the launch's energy, where the meter can tell.
std::optional<double> MeasureEnergy(const std::vector<StageSpan>& spans, EnergyMeter* energy) {
  constexpr double kSecondsPerNs = 1e-9;
  TimeNs computed = 0;
  for (const StageSpan& span : spans) {
    if (span.stage != Stage::kCompute) continue;
    energy->AddLaunch(span.start, span.end);
    computed += span.end - span.start;
  }
  return energy->JoulesOf(static_cast<double>(computed) * kSecondsPerNs);
}

}  // namespace

LaunchFacts::LaunchFacts(const std::vector<Job*>& jobs, int slice, const Plan* rows_plan,
                         std::vector<StageSpan> spans, const CopiedBytes& copied,
                         EnergyMeter* energy)
    : spans_(std::move(spans)),
      copied_(copied),
      slice_(slice),
      jobs_(jobs.size()),
      launch_(NextLaunch()) {
  for (const Job* const job : jobs) {
    rows_ += static_cast<std::uint64_t>(job->work.rows());
    flops_ += job->work.flops();
  }
  if (!spans_.empty()) start_ = spans_.front().start;
  for (const StageSpan& span : spans_) {
    start_ = std::min(start_, span.start);
    end_ = std::max(end_, span.end);
  }
  if (energy != nullptr) joules_ = MeasureEnergy(spans_, energy);
  if (rows_plan == nullptr) return;
  plan_ = *rows_plan;
  config_ = ToString(plan_->config);
}

void LaunchFacts::Record(std::size_t queue_span, TimeNs ran_until, Receipt* receipt) const {
  if (!spans_.empty()) {
    // A job waits until the device really begins, not until it was handed over; one that goes
    // in slices waits again between them.
    if (slice_ == 0) {
      receipt->spans[queue_span].end = start_;
    } else if (slice_ != kAhead && start_ > ran_until) {
      receipt->spans.push_back({Stage::kQueue, ran_until, start_});
    }
    receipt->spans.insert(receipt->spans.end(), spans_.begin(), spans_.end());
  }
  receipt->copied_bytes_in += copied_.in;
  receipt->copied_bytes_out += copied_.out;
  receipt->batch_requests = jobs_;
  receipt->launch = launch_;
  receipt->batch_rows = rows_;
  receipt->batch_flops = flops_;
  if (joules_.has_value()) {
    // As its compute time is shared: by FLOPs.
    receipt->joules = receipt->joules.value_or(0) + *joules_ * receipt->flops / flops_;
  }
  if (!plan_.has_value()) return;
  const Kernel::Traits& kernel = plan_->kernel->traits();
  receipt->kernel = kernel.name;
  receipt->plan = config_;
  receipt->numerics_id = plan_->numerics_id;
  receipt->determinism = kernel.determinism;
}

}  // namespace gemmd
