// Admission's search for memory: the device that serves a request, and all that it takes there.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/admission/admission.h"
#include "server/admission/charged_buffer.h"
#include "server/admission/operand_copies.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

// A refused client is told to wait no longer than this.
constexpr double kMaxRetryMs = 10000;

// Returns the bytes of host memory that a plane takes, by kind.
MemoryBytes PlaneMemory(const HostMemoryLimits& limits, std::uint64_t bytes) {
  MemoryBytes memory;
  if (limits.in_memory) {
    memory.device = bytes;
  } else if (bytes <= limits.small_plane_bytes) {
    memory.small = limits.small_plane_bytes;
  } else {
    memory.large = bytes;
  }
  return memory;
}

// The memory of a result: one that page-locked memory never holds lies in ordinary memory.
MemoryBytes ResultMemory(const HostMemoryLimits& limits, std::uint64_t bytes) {
  MemoryBytes memory = PlaneMemory(limits, bytes);
  if (memory.large > limits.large_bytes) memory.ordinary = std::exchange(memory.large, 0);
  return memory;
}

MemoryBytes Sum(const MemoryBytes& x, const MemoryBytes& y) {
  return {x.device + y.device, x.small + y.small, x.large + y.large, x.ordinary + y.ordinary};
}

// Groups begin at any row of what stays: on a device with memory of its own each row has to be a
// line there.
absl::Status CheckRowsThatStay(const Device& device, const Problem& problem,
                               const Residency& residency) {
  const bool a_stays = residency[WorkPlane::kA];
  const bool c_stays = residency[WorkPlane::kC];
  if (device.uses_host_memory() || !(a_stays || c_stays || residency.d)) return absl::OkStatus();
  const Problem row = device.Landed(PanelProblem(problem, {0, 1, 0, problem.n}));
  const bool lies_by_rows = row.m == 1 && (!a_stays || row.a_is_k_major()) &&
                            (!c_stays || row.c.order == Order::kRowMajor);
  if (lies_by_rows && problem.a_scaling == Scaling::kNone) return absl::OkStatus();
  const absl::string_view stays = a_stays   ? "a is resident"
                                  : c_stays ? "c is resident"
                                            : "keep_result is set";
  return absl::FailedPreconditionError(
      absl::StrCat(stays, ", and batch.row_ends is set: groups begin at rows, which on ",
                   device.traits().name, " do not lie as lines of ", Name(problem.a.type),
                   "; let a, c and d travel with the request"));
}

// The bytes of a B of a stack where it lands.
std::uint64_t MatrixBytes(const Problem& landed) {
  const std::optional<WeightPlane> packed = PackedPlaneOf(landed, WorkPlane::kB);
  if (packed.has_value()) return PackedBytes(landed, *packed);
  return ElementBytes(landed.b, landed.b.outer() * landed.b.leading_dimension);
}

// Returns a plan for all groups in one launch, if one is predicted to take no longer than their
// own plans.
std::optional<Plan> PlanTogether(const PlanMemo& memo, const Device& device, const Stack& stack,
                                 const std::string& kernel, const Offer& offer, double own_us) {
  if (!device.takes_groups() || stack.strides[WorkPlane::kB] == 0) return std::nullopt;
  const std::string& numerics_id = offer.plans->begin()->second.numerics_id;
  for (const auto& [rows, plan] : *offer.plans) {
    if (plan.numerics_id != numerics_id) return std::nullopt;
  }
  const Problem landed = device.Landed(offer.problem);
  const RowGroups groups = {*stack.row_ends, static_cast<std::int64_t>(MatrixBytes(landed)), 0};
  std::optional<Plan> plan =
      memo.SelectForGroups(landed, groups, device.traits(), kernel, numerics_id);
  if (plan.has_value() && plan->predicted_us > own_us) return std::nullopt;
  return plan;
}

// The plan of the problem; of groups that of the largest, or of all together. Sets what else the
// offer says of groups.
absl::StatusOr<Plan> SelectPlan(PlanMemo* memo, const Device& device, const Stack& stack,
                                const std::string& kernel, Offer* offer) {
  const auto select = [&](const Problem& problem) {
    return memo->Select(device.Landed(problem), device.traits(), kernel);
  };
  if (!stack.has_groups()) return select(offer->problem);
  offer->groups_go_together = false;
  auto plans = std::make_shared<std::map<std::int64_t, Plan>>();
  double us = 0;
  for (std::int64_t i = 0; i < stack.count; ++i) {
    const Problem problem = PlaceOf(offer->problem, stack, i).problem;
    if (problem.m == 0) continue;
    auto found = plans->find(problem.m);
    if (found == plans->end()) {
      absl::StatusOr<Plan> plan = select(problem);
      if (!plan.ok()) return plan;
      found = plans->emplace(problem.m, *std::move(plan)).first;
    }
    us += found->second.predicted_us;
  }
  Plan largest = plans->rbegin()->second;
  offer->plans = std::move(plans);
  if (std::optional<Plan> all = PlanTogether(*memo, device, stack, kernel, *offer, us)) {
    offer->groups_go_together = true;
    return *std::move(all);
  }
  largest.predicted_us = us;
  return largest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admission::FindRoom(const ResolvedHeader& resolved,
                                                                    TimeNs deadline) const {
  absl::Status refusal;
  const std::vector<RoutedDevice> route = RouteOf(resolved);
  for (const RoutedDevice& served : route) {
    absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
        TryDevice(served, resolved, deadline);
    if (admitted.ok()) {
      // A copy is considered only where the preferred device took the product. Any other took it
      // because the holder was full, and has its operands now. Memory that is shared with the
      // holder cannot be used on another device.
      if (&served == &route.front() && resolved.shared.holder() == nullptr) {
        ConsiderCopy(route,
                     {&resolved.residents, &resolved.problem, (*admitted)->job->cost.device_us},
                     clock_->Now(), store_);
      }
      return admitted;
    }
    // A device that never has room does not speak for one that may have some.
    const bool may_get_better = absl::IsResourceExhausted(admitted.status());
    if (may_get_better && !absl::IsResourceExhausted(refusal)) refusal = admitted.status();
    refusal.Update(admitted.status());
  }
  return refusal;
}

std::vector<RoutedDevice> Admission::RouteOf(const ResolvedHeader& resolved) const {
  if (router_->devices().size() == 1) return router_->ByPreference();
  std::vector<const Device*> holders = resolved.residents.holders();
  if (holders.empty() && resolved.shared.holder() != nullptr) {
    holders.push_back(resolved.shared.holder());
  }
  return router_->ByPreference(holders);
}

absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admission::TryDevice(const ServedDevice& served,
                                                                     const ResolvedHeader& resolved,
                                                                     TimeNs deadline) const {
  absl::StatusOr<Offer> offer = OfferOf(served, resolved);
  if (!offer.ok()) return offer.status();
  if (absl::Status s = CheckDeadline(served, resolved.call, deadline, offer->cost); !s.ok()) {
    return s;
  }
  Device& device = *served.device;
  const Footprint& footprint = offer->footprint;
  absl::StatusOr<Share> share = TakeShare(served, resolved, footprint);
  if (!share.ok()) {
    return FullNow(*served.scheduler, RefusalCause::kMemoryShare, share.status());
  }
  auto admitted = std::make_unique<AdmittedMatmul>();
  admitted->completion = std::make_unique<Completion>();
  admitted->job = std::make_unique<Job>();
  admitted->scheduler = served.scheduler;
  Completion& completion = *admitted->completion;
  completion.clock = clock_;
  completion.store = store_;
  completion.verifier = verifier_;
  completion.device = served.device;
  completion.kernel = offer->plan.kernel;
  completion.problem = resolved.problem;
  completion.stack = resolved.stack;
  Job& job = *admitted->job;
  job.cost = offer->cost;
  job.work.problem = offer->problem;
  job.work.stack = resolved.stack;
  job.work.plan = std::move(offer->plan);
  job.work.plans = std::move(offer->plans);
  job.work.groups_go_together = offer->groups_go_together;
  Receipt* const receipt = &job.receipt;
  absl::Status status = WithRoom(&device, receipt, [&] {
    absl::StatusOr<ResidentOperands::Placed> placed =
        resolved.residents.PlaceOn(&device, job.work.problem, &receipt->landed_bytes);
    if (!placed.ok()) return placed.status();
    job.work.buffers = std::move(placed->buffers);
    job.work.resident = std::move(placed->resident);
    job.work.weights_id = placed->weights_id;
    completion.held.memory = std::move(placed->memory);
    return absl::OkStatus();
  });
  if (status.ok()) {
    status = WithRoom(&device, receipt, [&] {
      absl::StatusOr<MemoryReservation> reservation =
          device.memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
      if (!reservation.ok()) return reservation.status();
      job.reservation = *std::move(reservation);
      return absl::OkStatus();
    });
  }
  if (status.ok() && resolved.call.keep_result.has_value()) {
    status = AllocateKept(resolved, admitted.get());
  }
  if (status.ok()) {
    const auto allocate = [&] { return AllocateHost(resolved, &*share, &completion); };
    // Evicting what lies on a device with memory of its own would not help.
    status = device.uses_host_memory() ? WithRoom(&device, receipt, allocate) : allocate();
  }
  if (absl::IsResourceExhausted(status)) {
    return FullNow(*served.scheduler, RefusalCause::kMemory, std::move(status));
  }
  if (!status.ok()) return status;
  completion.held.charge = std::move(share->charge);
  return admitted;
}

MemoryBytes Admission::Need::all() const { return Sum(Sum(rest, operands), result); }

Admission::Need Admission::NeedOf(const ServedDevice& served, const ResolvedHeader& resolved,
                                  const Footprint& footprint) const {
  const MatmulCall& call = resolved.call;
  const SharedOperands& shared = resolved.shared;
  const HostMemoryLimits limits = served.device->host_memory_limits();
  std::vector<std::uint64_t> planes =
      InlinePayload::PlaneBytes(call, resolved.problem, resolved.stack);
  if (limits.in_memory) planes.push_back(shared.bytes_in());  // is copied
  Need need;
  const bool stays_there = call.keep_result.has_value() && !served.device->uses_host_memory();
  if ((!shared.has_output() && !stays_there) || limits.in_memory) {
    need.result = ResultMemory(limits, resolved.result().size_bytes());
  }
  need.rest.device = footprint.in_flight_bytes + footprint.workspace_bytes;
  for (const std::uint64_t bytes : planes) {
    need.operands = Sum(need.operands, PlaneMemory(limits, bytes));
  }
  return need;
}

absl::StatusOr<Admission::Share> Admission::TakeShare(const ServedDevice& served,
                                                      const ResolvedHeader& resolved,
                                                      const Footprint& footprint) const {
  const MemoryHolder client = HolderOf(resolved.call);
  const Holder holder{client.tenant, client.peer};
  Ledger* const shares = shares_.at(served.device).get();
  Need need = NeedOf(served, resolved, footprint);
  Share share;
  share.result = need.result;
  absl::StatusOr<Hold> charge = shares->Take(holder, need.all().amounts());
  if (!charge.ok() && need.operands.large != 0) {
    // Large operands lie in ordinary memory as well, if more slowly; a result does if it must.
    need.operands.ordinary = std::exchange(need.operands.large, 0);
    charge = shares->Take(holder, need.all().amounts());
    share.has_page_locked_operands = false;
  }
  if (!charge.ok()) return charge.status();
  share.charge = *std::move(charge);
  return share;
}

absl::StatusOr<Offer> Admission::OfferOf(const ServedDevice& served,
                                         const ResolvedHeader& resolved) const {
  const MatmulCall& call = resolved.call;
  const Device& device = *served.device;
  Offer offer;
  offer.served = served;
  offer.problem = resolved.problem;
  const auto select = [&] {
    return SelectPlan(memo_.get(), device, resolved.stack, call.kernel, &offer);
  };
  if (device.packs_weights() && resolved.residents.has_b() &&
      resolved.residents.may_pack_b(offer.problem)) {
    offer.problem.b_packing = Packing::kStrips;
  }
  absl::StatusOr<Plan> plan = select();
  if (!plan.ok() && offer.problem.b_packing != Packing::kNone) {
    // The request may name a kernel that takes B as it was sent.
    offer.problem.b_packing = Packing::kNone;
    plan = select();
  }
  if (!plan.ok()) return plan.status();
  const Problem& problem = offer.problem;
  if (absl::Status s = resolved.residents.CheckPlaces(device, problem); !s.ok()) return s;
  Residency residency = resolved.residents.residency(device);
  residency.d = call.keep_result.has_value() && !device.uses_host_memory();
  if (resolved.stack.has_groups()) {
    if (absl::Status s = CheckRowsThatStay(device, problem, residency); !s.ok()) return s;
    DeviceWork grouped;
    grouped.problem = problem;
    grouped.stack = resolved.stack;
    grouped.plan = *plan;
    grouped.plans = offer.plans;
    grouped.groups_go_together = offer.groups_go_together;
    offer.footprint = device.GroupsFootprintOf(grouped, residency);
  } else if (resolved.stack.is_one()) {
    offer.footprint = device.FootprintOf(problem, *plan, residency);
  } else {
    plan->predicted_us = plan->kernel->PredictedBatchUs(device.Landed(problem), plan->config,
                                                        resolved.stack.count, device.traits());
    offer.footprint = device.StackFootprintOf(problem, resolved.stack, *plan, residency);
  }
  const Footprint& footprint = offer.footprint;
  const std::uint64_t limit_bytes = served.device->memory().usage().limit_bytes;
  // Compared one after the other: their sum could wrap.
  if (footprint.in_flight_bytes > limit_bytes ||
      footprint.workspace_bytes > limit_bytes - footprint.in_flight_bytes ||
      footprint.kept_bytes > limit_bytes - footprint.in_flight_bytes - footprint.workspace_bytes) {
    const std::string kept = footprint.kept_bytes == 0 ? ""
                                                       : absl::StrCat(" and ", footprint.kept_bytes,
                                                                      " for a result that stays");
    return absl::InvalidArgumentError(absl::StrCat(
        "the request needs ", footprint.in_flight_bytes, " bytes and ", footprint.workspace_bytes,
        " of workspace", kept, " on ", device.traits().name, ", which has ", limit_bytes));
  }
  // They may have come to a host that has room for more.
  if (const std::uint64_t bytes = resolved.residents.bytes_on(device); bytes > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the resident operands take ", bytes,
                                                   " bytes on ", device.traits().name,
                                                   ", which has ", limit_bytes));
  }
  offer.cost = served.scheduler->cost().Predict(problem, *plan, residency, resolved.stack);
  offer.plan = *std::move(plan);
  return offer;
}

absl::Status Admission::AllocateHost(const ResolvedHeader& resolved, Share* share,
                                     Completion* completion) {
  const MatmulCall& call = resolved.call;
  Device* const device = completion->device;
  absl::StatusOr<std::unique_ptr<InlinePayload>> payload = InlinePayload::Create(
      call, resolved.problem, resolved.stack, [device, share](std::uint64_t bytes) {
        return share->has_page_locked_operands ? device->AllocateOperand(bytes)
                                               : device->AllocateOrdinaryOperand(bytes);
      });
  if (!payload.ok()) return payload.status();
  completion->held.payload = *std::move(payload);
  absl::StatusOr<SharedOperands::Placed> placed = resolved.shared.PlaceOn(device);
  if (!placed.ok()) return placed.status();
  completion->held.placed = *std::move(placed);
  const Ordering& ordering = resolved.ordering;
  const Holdings& held = completion->held;
  const bool is_own = held.payload->memory(ordering.plane()) != nullptr ||
                      resolved.shared.CopyOf(ordering.plane(), held.placed) != nullptr;
  if (ordering.order != nullptr && !is_own) {
    const absl::string_view other = Name(ordering.operand);
    return absl::UnimplementedError(absl::StrCat(
        other, ".shared is set, and the resident operand has a k_order: ", device->traits().name,
        " uses shared memory in place, where ", other, " cannot be put in that order; send it"));
  }
  if (call.verification_vectors != 0 && SharedOperands::AnyInPlace(completion->held.placed)) {
    return absl::UnimplementedError(absl::StrCat(
        "verification.vectors is ", call.verification_vectors, ", and ", device->traits().name,
        " uses the shared memory of this request in place, where the CPU cannot verify it"));
  }
  if (!completion->held.placed.d.empty()) {
    completion->d = completion->held.placed.d;
    return absl::OkStatus();
  }
  if (completion->kept != nullptr) {
    completion->d = completion->kept->memory();
    return absl::OkStatus();
  }
  absl::StatusOr<HostBuffer> d = device->AllocateResult(resolved.result());
  if (!d.ok()) return d.status();
  completion->d = *std::move(d);
  Attach(share->charge.Split(share->result.amounts()), &completion->d);
  return absl::OkStatus();
}

absl::Status Admission::AllocateKept(const ResolvedHeader& resolved,
                                     AdmittedMatmul* admitted) const {
  Completion& completion = *admitted->completion;
  Receipt* const receipt = &admitted->job->receipt;
  Device* const device = completion.device;
  const auto begin = [&] {
    absl::StatusOr<std::unique_ptr<PendingResult>> kept = store_->BeginResult(
        resolved.call.tenant, resolved.problem.d, resolved.call.keep_result->lease, device);
    if (!kept.ok()) return kept.status();
    completion.kept = *std::move(kept);
    return absl::OkStatus();
  };
  absl::Status status = device->uses_host_memory() ? WithRoom(device, receipt, begin) : begin();
  if (!status.ok()) {
    status.SetPayload(kStoreIsFullUrl, absl::Cord());
    return status;
  }
  if (device->uses_host_memory()) return status;
  return WithRoom(device, receipt, [&] { return completion.kept->PlaceOn(device); });
}

absl::Status Admission::WithRoom(Device* device, Receipt* receipt,
                                 const std::function<absl::Status()>& attempt) const {
  absl::Status status = attempt();
  while (absl::IsResourceExhausted(status) && store_ != nullptr) {
    std::optional<std::uint64_t> bytes;
    if (!device->uses_host_memory()) bytes = store_->MoveOutOf(device);
    if (!bytes.has_value() && !store_->EvictFrom(device)) break;
    receipt->evicted_bytes += bytes.value_or(0);
    status = attempt();
  }
  return status;
}

absl::Status Admission::FullNow(const Scheduler& scheduler, RefusalCause cause,
                                absl::Status status) {
  if (IsQuotaRefusal(status)) return status;  // which does not end with the device's work
  // The device's work is no sign of when a store has room.
  if (status.GetPayload(kStoreIsFullUrl).has_value()) {
    return WithCause(WithRetryAfter(std::move(status), WaitsFor::kLeases), cause);
  }
  const double backlog_ms = scheduler.predicted_backlog_us() / 1e3;
  return WithCause(WithRetryAfter(std::move(status), WaitsFor::kRequests,
                                  std::llround(std::clamp(backlog_ms, 0.0, kMaxRetryMs))),
                   cause);
}

}  // namespace gemmd
