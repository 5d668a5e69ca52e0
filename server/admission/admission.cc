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

Admission::Admission(const RequestLimits& limits, const Registry* registry, const Router* router,
                     Statistics* statistics, const Clock* clock, const PlanCache* plans)
    : limits_(limits),
      registry_(registry),
      router_(router),
      statistics_(statistics),
      clock_(clock),
      plans_(plans) {}

absl::Status Admission::Submit(std::uint64_t request_id, const MatmulJob& request, Callback done) {
  const TimeNs start = clock_->Now();
  if (router_->draining()) {
    return absl::UnavailableError("the server is draining: use another replica");
  }
  absl::StatusOr<Problem> problem = ValidateHeader(request.call, limits_);
  if (!problem.ok()) return problem.status();
  // From here on bytes are held; the payload is looked at last, as it will be when it
  // arrives after its header.
  absl::StatusOr<Grant> grant = FindRoom(*problem, request);
  if (!grant.ok()) return grant.status();
  absl::StatusOr<Payload> payload = CollectPayload(request.call, *problem);
  if (!payload.ok()) return payload.status();

  auto job = std::make_unique<Job>();
  job->id = request_id;
  job->deadline = request.deadline;
  job->priority = request.call.priority;
  job->reservation = std::move(grant->reservation);
  HostBuffers& buffers = job->work.buffers;
  buffers.a = payload->operands[static_cast<int>(OperandName::kA)];
  buffers.b = payload->operands[static_cast<int>(OperandName::kB)];
  buffers.c = payload->operands[static_cast<int>(OperandName::kC)];
  buffers.bias = payload->operands[static_cast<int>(OperandName::kBias)];
  buffers.a_scales = payload->a_scales;
  buffers.b_scales = payload->b_scales;
  buffers.d = grant->d;

  Receipt& receipt = job->receipt;
  receipt.request_id = request_id;
  receipt.arrival = request.arrival;
  receipt.device = grant->served.device->traits().name;
  receipt.kernel = grant->plan.kernel->traits().name;
  receipt.plan = ToString(grant->plan.config);
  receipt.numerics_id = grant->plan.numerics_id;
  receipt.determinism = grant->plan.kernel->traits().determinism;
  receipt.flops = problem->flops();
  receipt.payload_bytes_in = payload->bytes;
  receipt.payload_bytes_out = problem->d.size_bytes();
  receipt.spans.push_back(request.decode);

  job->done = [problem = *problem, d = std::move(grant->d), gathered = std::move(payload->gathered),
               done = std::move(done)](absl::Status status, Receipt done_receipt) mutable {
    // The device wrote the elements; padding between lines must not tell what the
    // memory held before.
    if (status.ok()) ClearPadding(problem.d, d);
    HostBuffer result = status.ok() ? std::move(d) : HostBuffer();
    std::move(done)({std::move(status), problem, std::move(done_receipt), std::move(result)});
  };
  job->work.problem = *std::move(problem);
  job->work.plan = std::move(grant->plan);
  receipt.spans.push_back({Stage::kAdmission, start, clock_->Now()});
  Scheduler* const scheduler = grant->served.scheduler;
  if (absl::Status s = scheduler->Submit(std::move(job)); !s.ok()) {
    return absl::IsResourceExhausted(s) ? FullNow(*scheduler, std::move(s)) : s;
  }
  statistics_->RecordAdmitted();
  return absl::OkStatus();
}

absl::StatusOr<Admission::Grant> Admission::FindRoom(const Problem& problem,
                                                     const MatmulJob& request) const {
  absl::Status first_refusal;
  for (const ServedDevice& served : router_->ByPreference()) {
    absl::StatusOr<Grant> grant = TryDevice(served, problem, request);
    if (grant.ok()) return grant;
    first_refusal.Update(grant.status());
  }
  return first_refusal;
}

absl::StatusOr<Admission::Grant> Admission::TryDevice(const ServedDevice& served,
                                                      const Problem& problem,
                                                      const MatmulJob& request) const {
  Device& device = *served.device;
  absl::StatusOr<Plan> plan =
      Select(*registry_, device.Landed(problem), device.traits(), request.call.kernel, plans_);
  if (!plan.ok()) return plan.status();
  const Footprint footprint = device.FootprintOf(problem, *plan);
  const std::uint64_t limit_bytes = device.memory().usage().limit_bytes;
  if (footprint.in_flight_bytes > limit_bytes ||
      footprint.workspace_bytes > limit_bytes - footprint.in_flight_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request needs ", footprint.in_flight_bytes, " bytes and ", footprint.workspace_bytes,
        " of workspace on ", device.traits().name, ", which has ", limit_bytes));
  }
  if (absl::Status s = CheckDeadline(request.deadline, plan->predicted_us); !s.ok()) return s;
  absl::StatusOr<MemoryReservation> reservation =
      device.memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
  if (!reservation.ok()) return FullNow(*served.scheduler, reservation.status());
  absl::StatusOr<HostBuffer> d = device.AllocateResult(problem.d);
  if (absl::IsResourceExhausted(d.status())) return FullNow(*served.scheduler, d.status());
  if (!d.ok()) return d.status();
  return Grant{served, *std::move(plan), *std::move(reservation), *std::move(d)};
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

absl::Status Admission::FullNow(const Scheduler& scheduler, absl::Status status) {
  const double backlog_ms = scheduler.predicted_backlog_us() / 1e3;
  return WithRetryAfter(std::move(status),
                        std::llround(std::clamp(backlog_ms, kMinRetryMs, kMaxRetryMs)));
}

}  // namespace gemmd
