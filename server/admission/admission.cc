#include "server/admission/admission.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/admission/retry_after.h"

namespace gemmd {
namespace {

// Bounds of what a refused client is told to wait.
constexpr double kMinRetryMs = 1;
constexpr double kMaxRetryMs = 10000;

}  // namespace

Admission::Admission(const RequestLimits& limits, const Registry* registry, Device* device,
                     Scheduler* scheduler, Statistics* statistics, const Clock* clock)
    : limits_(limits),
      registry_(registry),
      device_(device),
      scheduler_(scheduler),
      statistics_(statistics),
      clock_(clock) {}

absl::Status Admission::Submit(std::uint64_t request_id, const MatmulJob& request, Callback done) {
  const TimeNs start = clock_->Now();
  if (scheduler_->draining()) {
    return absl::UnavailableError("the server is draining: use another replica");
  }
  absl::StatusOr<Problem> problem = ValidateHeader(request.call, limits_);
  if (!problem.ok()) return problem.status();
  const Problem landed = device_->Landed(*problem);
  absl::StatusOr<Plan> plan = Select(*registry_, landed, device_->traits(), request.call.kernel);
  if (!plan.ok()) return plan.status();
  const Footprint footprint = device_->FootprintOf(*problem, *plan);
  const std::uint64_t limit_bytes = device_->memory().usage().limit_bytes;
  if (footprint.in_flight_bytes > limit_bytes ||
      footprint.workspace_bytes > limit_bytes - footprint.in_flight_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request needs ", footprint.in_flight_bytes, " bytes and ", footprint.workspace_bytes,
        " of workspace on ", device_->traits().name, ", which has ", limit_bytes));
  }
  if (absl::Status s = CheckDeadline(request.deadline, plan->predicted_us); !s.ok()) return s;
  // From here on bytes are held; the payload is looked at last, as it will be when it
  // arrives after its header.
  absl::StatusOr<MemoryReservation> reservation =
      device_->memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
  if (!reservation.ok()) return FullNow(reservation.status());
  absl::StatusOr<HostBuffer> d = device_->AllocateResult(problem->d);
  if (!d.ok()) return absl::IsResourceExhausted(d.status()) ? FullNow(d.status()) : d.status();
  absl::StatusOr<Payload> payload = CollectPayload(request.call, *problem);
  if (!payload.ok()) return payload.status();

  auto job = std::make_unique<Job>();
  job->id = request_id;
  job->deadline = request.deadline;
  job->priority = request.call.priority;
  job->reservation = *std::move(reservation);
  HostBuffers& buffers = job->work.buffers;
  buffers.a = payload->operands[static_cast<int>(OperandName::kA)];
  buffers.b = payload->operands[static_cast<int>(OperandName::kB)];
  buffers.c = payload->operands[static_cast<int>(OperandName::kC)];
  buffers.bias = payload->operands[static_cast<int>(OperandName::kBias)];
  buffers.d = *d;

  Receipt& receipt = job->receipt;
  receipt.request_id = request_id;
  receipt.arrival = request.arrival;
  receipt.device = device_->traits().name;
  receipt.kernel = plan->kernel->traits().name;
  receipt.plan = ToString(plan->config);
  receipt.numerics_id = plan->numerics_id;
  receipt.determinism = plan->kernel->traits().determinism;
  receipt.flops = problem->flops();
  receipt.payload_bytes_in = payload->bytes;
  receipt.payload_bytes_out = problem->d.size_bytes();
  receipt.spans.push_back(request.decode);

  job->done = [problem = *problem, d = *std::move(d), gathered = std::move(payload->gathered),
               done = std::move(done)](absl::Status status, Receipt done_receipt) mutable {
    // The device wrote the elements; padding between lines must not tell what the
    // memory held before.
    if (status.ok()) ClearPadding(problem.d, d);
    HostBuffer result = status.ok() ? std::move(d) : HostBuffer();
    std::move(done)({std::move(status), problem, std::move(done_receipt), std::move(result)});
  };
  job->work.problem = *std::move(problem);
  job->work.plan = *std::move(plan);
  receipt.spans.push_back({Stage::kAdmission, start, clock_->Now()});
  if (absl::Status s = scheduler_->Submit(std::move(job)); !s.ok()) {
    return absl::IsResourceExhausted(s) ? FullNow(std::move(s)) : s;
  }
  statistics_->RecordAdmitted();
  return absl::OkStatus();
}

absl::Status Admission::CheckDeadline(TimeNs deadline, double predicted_us) const {
  if (deadline == kNoDeadline) return absl::OkStatus();
  const double left_us = static_cast<double>(deadline - clock_->Now()) / 1e3;
  if (left_us > predicted_us) return absl::OkStatus();
  if (left_us <= 0) return absl::DeadlineExceededError("the deadline passed before admission");
  return absl::DeadlineExceededError(absl::StrCat(
      "the deadline is ", std::llround(left_us),
      " us away, and the product alone is predicted to take ", std::llround(predicted_us), " us"));
}

absl::Status Admission::FullNow(absl::Status status) const {
  const double backlog_ms = scheduler_->predicted_backlog_us() / 1e3;
  return WithRetryAfter(std::move(status),
                        std::llround(std::clamp(backlog_ms, kMinRetryMs, kMaxRetryMs)));
}

}  // namespace gemmd
