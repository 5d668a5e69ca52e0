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

// What `resident` has goes before what `buffers` have, which is nothing there.
void Overlay(const HostBuffers& resident, HostBuffers* buffers) {
  const auto take = [](auto* from, auto** to) {
    if (from != nullptr) *to = from;
  };
  take(resident.a, &buffers->a);
  take(resident.b, &buffers->b);
  take(resident.c, &buffers->c);
  take(resident.bias, &buffers->bias);
  take(resident.a_scales, &buffers->a_scales);
  take(resident.b_scales, &buffers->b_scales);
}

}  // namespace

Admission::Admission(const RequestLimits& limits, const Registry* registry, const Router* router,
                     Statistics* statistics, const Clock* clock, const PlanCache* plans,
                     OperandStore* store, RegionTable* regions)
    : limits_(limits),
      router_(router),
      statistics_(statistics),
      clock_(clock),
      memo_(std::make_unique<PlanMemo>(registry, plans)),
      store_(store),
      regions_(regions) {}

absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admission::Admit(const MatmulCall& request,
                                                                 TimeNs deadline,
                                                                 Carrier carrier) const {
  const TimeNs start = clock_->Now();
  if (router_->draining()) {
    return absl::UnavailableError("the server is draining: use another replica");
  }
  MatmulCall call = request;
  if (call.keep_result.has_value() && store_ == nullptr) {
    return absl::UnimplementedError("keep_result is set: this server keeps no operands");
  }
  absl::StatusOr<ResidentOperands> residents = ResidentOperands::Find(store_, &call);
  if (!residents.ok()) return residents.status();
  RequestLimits limits = limits_;
  if (carrier == Carrier::kStream) limits.result_bytes = limits.request_bytes;
  absl::StatusOr<Problem> problem = ValidateHeader(call, limits);
  if (!problem.ok()) return problem.status();
  absl::StatusOr<SharedOperands> shared = SharedOperands::Find(regions_, call, *problem);
  if (!shared.ok()) return shared.status();
  absl::StatusOr<Grant> grant = FindRoom(call, *problem, *residents, *shared, deadline);
  if (!grant.ok()) return grant.status();
  auto admitted = std::make_unique<AdmittedMatmul>();
  admitted->problem = *std::move(problem);
  admitted->residents = *std::move(residents);
  admitted->shared = *std::move(shared);
  admitted->grant = *std::move(grant);
  admitted->deadline = deadline;
  admitted->priority = call.priority;
  admitted->tenant = call.tenant;
  admitted->admission = {Stage::kAdmission, start, clock_->Now()};
  return admitted;
}

absl::Status Admission::Submit(std::uint64_t request_id, std::unique_ptr<AdmittedMatmul> request,
                               RequestTimes times, Callback done) {
  if (absl::Status status = request->payload().Check(); !status.ok()) return status;
  Grant& grant = request->grant;
  const TimeNs read_start = clock_->Now();
  if (absl::Status status = request->shared.Read(grant.shared); !status.ok()) return status;
  if (!request->shared.empty()) {
    times.spans.push_back({Stage::kReceive, read_start, clock_->Now()});
  }
  auto job = std::make_unique<Job>();
  job->id = request_id;
  job->deadline = request->deadline;
  job->priority = request->priority;
  job->tenant = request->tenant.key();
  job->cost = grant.cost;
  job->reservation = std::move(grant.reservation);
  job->work.problem = request->problem;
  job->work.plan = grant.plan;
  job->work.buffers = grant.payload->buffers();
  Overlay(grant.placed.buffers, &job->work.buffers);
  job->work.resident_a = std::move(grant.placed.a);
  job->work.resident_b = std::move(grant.placed.b);
  job->work.weights_id = grant.placed.weights_id;
  job->work.buffers.d = grant.d;
  request->shared.Overlay(grant.shared, &job->work.buffers);

  Receipt& receipt = job->receipt;
  receipt.request_id = request_id;
  receipt.arrival = times.arrival;
  receipt.device = grant.served.device->traits().name;
  receipt.kernel = grant.plan.kernel->traits().name;
  receipt.plan = ToString(grant.plan.config);
  receipt.numerics_id = grant.plan.numerics_id;
  receipt.determinism = grant.plan.kernel->traits().determinism;
  receipt.flops = request->problem.flops();
  receipt.payload_bytes_in = grant.payload->received_bytes();
  const bool is_sent_back = grant.kept == nullptr && !request->shared.has_output();
  receipt.payload_bytes_out = is_sent_back ? request->problem.d.size_bytes() : 0;
  job->host_bytes = receipt.payload_bytes_in + receipt.payload_bytes_out;
  receipt.shared_bytes_in = request->shared.bytes_in();
  receipt.shared_bytes_out = request->shared.bytes_out();
  receipt.spans = std::move(times.spans);
  receipt.spans.push_back(request->admission);

  Scheduler* const scheduler = grant.served.scheduler;
  job->done = [store = store_, problem = request->problem, d = std::move(grant.d),
               kept = std::move(grant.kept), payload = std::move(grant.payload),
               residents = std::move(request->residents), memory = std::move(grant.placed.memory),
               shared = std::move(request->shared), placed = std::move(grant.shared),
               done = std::move(done)](absl::Status status, Receipt done_receipt) mutable {
    // Given back before anybody is told.
    payload.reset();
    memory.clear();
    residents = {};
    if (status.ok() && !shared.empty()) status = shared.Finish(placed, problem.d, d);
    if (!status.ok() || shared.has_output()) d.clear();
    placed = {};
    shared = {};
    // The device wrote the elements; padding between lines must not tell what the
    // memory held before.
    if (!d.empty()) ClearPadding(problem.d, d);
    std::string handle;
    if (kept != nullptr) {
      d.clear();
      if (status.ok()) handle = store->Keep(std::move(kept));
      kept.reset();
    }
    std::move(done)(
        {std::move(status), problem, std::move(done_receipt), std::move(d), std::move(handle)});
  };
  if (absl::Status s = scheduler->Submit(std::move(job)); !s.ok()) {
    return absl::IsResourceExhausted(s) ? FullNow(*scheduler, std::move(s)) : s;
  }
  statistics_->RecordAdmitted();
  return absl::OkStatus();
}

absl::StatusOr<Grant> Admission::FindRoom(const MatmulCall& call, const Problem& problem,
                                          const ResidentOperands& residents,
                                          const SharedOperands& shared, TimeNs deadline) const {
  absl::Status first_refusal;
  const Device* const holder = residents.holder() != nullptr ? residents.holder() : shared.holder();
  for (const ServedDevice& served : router_->ByPreference(holder)) {
    absl::StatusOr<Grant> grant = TryDevice(served, call, problem, residents, shared, deadline);
    if (grant.ok()) return grant;
    first_refusal.Update(grant.status());
  }
  return first_refusal;
}

absl::StatusOr<Grant> Admission::TryDevice(const ServedDevice& served, const MatmulCall& call,
                                           const Problem& problem,
                                           const ResidentOperands& residents,
                                           const SharedOperands& shared, TimeNs deadline) const {
  Device& device = *served.device;
  absl::StatusOr<Plan> plan =
      memo_->Select(device.Landed(problem), device.traits(), call.kernel);
  if (!plan.ok()) return plan.status();
  const Footprint footprint = device.FootprintOf(problem, *plan, residents.residency(device));
  const std::uint64_t limit_bytes = device.memory().usage().limit_bytes;
  if (footprint.in_flight_bytes > limit_bytes ||
      footprint.workspace_bytes > limit_bytes - footprint.in_flight_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the request needs ", footprint.in_flight_bytes, " bytes and ", footprint.workspace_bytes,
        " of workspace on ", device.traits().name, ", which has ", limit_bytes));
  }
  Grant grant;
  grant.cost = served.scheduler->cost().Predict(problem, *plan, residents.residency(device));
  if (absl::Status s = CheckDeadline(served, call, deadline, grant.cost); !s.ok()) return s;
  grant.served = served;
  grant.plan = *std::move(plan);
  absl::Status status = WithRoom(device, [&] {
    absl::StatusOr<ResidentOperands::Placed> placed = residents.PlaceOn(&device, problem);
    if (!placed.ok()) return placed.status();
    grant.placed = *std::move(placed);
    return absl::OkStatus();
  });
  if (status.ok()) {
    status = WithRoom(device, [&] {
      absl::StatusOr<MemoryReservation> reservation =
          device.memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
      if (!reservation.ok()) return reservation.status();
      grant.reservation = *std::move(reservation);
      return absl::OkStatus();
    });
  }
  if (status.ok()) {
    const auto allocate = [&] { return AllocateHost(call, problem, shared, &grant); };
    if (device.uses_host_memory()) {
      status = WithRoom(device, allocate);
    } else {
      // Evicting what lies on the device would not help.
      status = allocate();
      while (absl::IsResourceExhausted(status) && store_ != nullptr && store_->FreeResultMemory()) {
        status = allocate();
      }
    }
  }
  if (absl::IsResourceExhausted(status)) return FullNow(*served.scheduler, std::move(status));
  if (!status.ok()) return status;
  return grant;
}

absl::Status Admission::AllocateHost(const MatmulCall& call, const Problem& problem,
                                     const SharedOperands& shared, Grant* grant) const {
  Device* const device = grant->served.device;
  absl::StatusOr<std::unique_ptr<InlinePayload>> payload =
      InlinePayload::Create(call, problem, device);
  if (!payload.ok()) return payload.status();
  grant->payload = *std::move(payload);
  absl::StatusOr<SharedOperands::Placed> placed = shared.PlaceOn(device);
  if (!placed.ok()) return placed.status();
  grant->shared = *std::move(placed);
  if (!grant->shared.d.empty()) {
    grant->d = grant->shared.d;
    return absl::OkStatus();
  }
  if (call.keep_result.has_value()) {
    absl::StatusOr<std::unique_ptr<PendingResult>> kept =
        store_->BeginResult(call.tenant, problem.d, call.keep_result->lease, device);
    if (!kept.ok()) return kept.status();
    grant->kept = *std::move(kept);
    grant->d = grant->kept->memory();
    return absl::OkStatus();
  }
  absl::StatusOr<HostBuffer> d = device->AllocateResult(problem.d);
  if (!d.ok()) return d.status();
  grant->d = *std::move(d);
  return absl::OkStatus();
}

absl::Status Admission::WithRoom(const Device& device,
                                 const std::function<absl::Status()>& attempt) const {
  absl::Status status = attempt();
  while (absl::IsResourceExhausted(status) && store_ != nullptr && store_->EvictFrom(&device)) {
    status = attempt();
  }
  return status;
}

absl::Status Admission::CheckDeadline(const ServedDevice& served, const MatmulCall& call,
                                      TimeNs deadline, const Cost& cost) const {
  if (deadline == kNoDeadline) return absl::OkStatus();
  const double left_us = static_cast<double>(deadline - clock_->Now()) / 1e3;
  if (left_us <= 0) return absl::DeadlineExceededError("the deadline passed before admission");
  if (left_us <= cost.device_us) {
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline is ", std::llround(left_us),
                     " us away, and the product alone is predicted to take ",
                     std::llround(cost.device_us), " us"));
  }
  return served.scheduler->PredictWait({call.tenant.key(), call.priority, deadline, cost.device_us})
      .status();
}

absl::Status Admission::FullNow(const Scheduler& scheduler, absl::Status status) {
  const double backlog_ms = scheduler.predicted_backlog_us() / 1e3;
  return WithRetryAfter(std::move(status),
                        std::llround(std::clamp(backlog_ms, kMinRetryMs, kMaxRetryMs)));
}

}  // namespace gemmd
