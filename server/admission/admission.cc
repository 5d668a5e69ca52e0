#include "server/admission/admission.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "server/scheduling/draining.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

// Bounds of the time that a refused client is told to wait.
constexpr double kMinRetryMs = 1;
constexpr double kMaxRetryMs = 10000;

// Sets the buffers that `resident` has; `buffers` has none in their place.
void Overlay(const HostBuffers& resident, HostBuffers* buffers) {
  for (const WorkPlane plane : kWorkPlanes) {
    if (resident[plane] != nullptr) (*buffers)[plane] = resident[plane];
  }
}

std::uint64_t InlineBytes(const MatmulCall& call, const Problem& problem) {
  const std::vector<std::uint64_t> planes = InlinePayload::PlaneBytes(call, problem);
  return std::accumulate(planes.begin(), planes.end(), std::uint64_t{0});
}

bool IsSentBack(const MatmulCall& call) {
  return !call.keep_result.has_value() && !call.output.has_value();
}

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

MemoryBytes Sum(const MemoryBytes& x, const MemoryBytes& y) {
  return {x.device + y.device, x.small + y.small, x.large + y.large, x.ordinary + y.ordinary};
}

// Gives the buffer's memory back before it ends the charge.
template <typename Charge>
void Attach(Charge charge, HostBuffer* buffer) {
  struct Held {
    std::shared_ptr<Charge> charge;
    std::shared_ptr<void> memory;  // goes first
  };
  const auto shared = std::make_shared<Charge>(std::move(charge));
  for (HostPiece& piece : *buffer) {
    piece.owner = std::make_shared<Held>(Held{shared, std::move(piece.owner)});
  }
}

std::optional<double> WeightOf(const Tenant& tenant) {
  return tenant.quota() == nullptr ? std::nullopt : tenant.quota()->weight;
}

// Marks a refusal that does not end with requests in flight.
constexpr char kStoreIsFullUrl[] = "gemmd/store-is-full";

}  // namespace

Admission::Admission(const RequestLimits& limits, const Registry* registry, const Router* router,
                     const Clock* clock, const PlanCache* plans, OperandStore* store,
                     RegionTable* regions, Verifier* verifier, ClientPolicy policy)
    : limits_(limits),
      router_(router),
      clock_(clock),
      memo_(std::make_unique<PlanMemo>(registry, plans)),
      store_(store),
      regions_(regions),
      verifier_(verifier),
      policy_(std::move(policy)) {
  for (const ServedDevice& served : router->devices()) {
    const HostMemoryLimits host = served.device->host_memory_limits();
    shares_[served.device] = std::make_unique<MemoryShares>(
        MemoryBytes{served.device->memory().usage().limit_bytes, host.small_bytes, host.large_bytes,
                    host.ordinary_bytes},
        policy_.memory_percent, [room = policy_.room] {
          if (room != nullptr) room->Poke();
        });
  }
}

absl::Status Admission::CheckServing() const {
  return router_->draining() ? DrainingError() : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admission::Admit(const MatmulCall& call,
                                                                 TimeNs deadline,
                                                                 Carrier carrier) const {
  // Those that wait for memory came before the server was to stop, and are let in all the same.
  if (!call.came_before_drain) {
    if (absl::Status s = CheckServing(); !s.ok()) return s;
  }
  if (policy_.room != nullptr && policy_.room->HasWaiting(call.tenant.key())) {
    return FullNow(*router_->devices().front().scheduler, RefusalCause::kMemory,
                   absl::ResourceExhaustedError("other requests of the tenant wait for memory"));
  }
  return AdmitNow(call, deadline, carrier, nullptr);
}

bool Admission::MayWait(const absl::Status& refusal) const {
  return policy_.room != nullptr && absl::IsResourceExhausted(refusal) &&
         !refusal.GetPayload(kStoreIsFullUrl).has_value() && !IsQuotaRefusal(refusal);
}

MemoryHolder Admission::HolderOf(const MatmulCall& call) const {
  if (policy_.proxies.count(call.peer) == 0) return {call.tenant.key(), call.peer};
  return {call.tenant.key(), absl::StrCat(call.peer, " connection ", call.connection)};
}

bool Admission::IsMemoryInUse() const {
  return std::any_of(shares_.begin(), shares_.end(),
                     [](const auto& each) { return each.second->holders() != 0; });
}

void Admission::AwaitMemory(std::uint64_t request_id, const MatmulCall& call, TimeNs deadline,
                            Carrier carrier, std::uint64_t message_bytes,
                            AdmitCallback done) const {
  // A call that waits takes quota too: its message is here.
  const auto quota = std::make_shared<QuotaAccounts::Hold>();
  absl::StatusOr<Understood> understood = Understand(call, carrier);
  absl::Status status = understood.status();
  if (status.ok()) {
    absl::StatusOr<QuotaAccounts::Hold> taken = TakeQuota(understood->call, understood->problem);
    status = taken.status();
    if (taken.ok()) *quota = *std::move(taken);
  }
  if (!status.ok()) {
    std::move(done)(std::move(status));
    return;
  }
  const auto told = std::make_shared<AdmitCallback>(std::move(done));
  WaitingRoom::Request request;
  request.id = request_id;
  request.holder = HolderOf(call);
  request.bytes = message_bytes;
  request.deadline = deadline;
  request.attempt = [this, call, deadline, carrier, told, quota, start = clock_->Now()] {
    // Looked at before, so that what is given back meanwhile is waited for.
    const bool may_get_better = IsMemoryInUse();
    absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
        AdmitNow(call, deadline, carrier, quota.get());
    if (may_get_better && MayWait(admitted.status())) return false;
    if (admitted.ok()) {
      (*admitted)->admission.start = start;
      // This thread has others to look after.
      (*admitted)->is_one_message = false;
    }
    std::move (*told)(std::move(admitted));
    return true;
  };
  request.end = [told](absl::Status status) { std::move (*told)(std::move(status)); };
  if (absl::Status s = policy_.room->Add(std::move(request)); !s.ok()) {
    std::move (*told)(std::move(s));
  }
}

absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admission::AdmitNow(
    const MatmulCall& request, TimeNs deadline, Carrier carrier, QuotaAccounts::Hold* quota) const {
  const TimeNs start = clock_->Now();
  absl::StatusOr<Understood> understood = Understand(request, carrier);
  if (!understood.ok()) return understood.status();
  QuotaAccounts::Hold own;
  if (quota == nullptr) {
    absl::StatusOr<QuotaAccounts::Hold> taken = TakeQuota(understood->call, understood->problem);
    if (!taken.ok()) return taken.status();
    own = *std::move(taken);
    quota = &own;
  }
  absl::StatusOr<Grant> grant = FindRoom(understood->call, understood->problem,
                                         understood->residents, understood->shared, deadline);
  if (!grant.ok()) return grant.status();
  auto admitted = std::make_unique<AdmittedMatmul>();
  admitted->problem = understood->problem;
  admitted->residents = std::move(understood->residents);
  admitted->shared = std::move(understood->shared);
  admitted->grant = *std::move(grant);
  admitted->deadline = deadline;
  admitted->priority = request.priority;
  admitted->tenant = request.tenant;
  admitted->quota = std::move(*quota);
  admitted->quota.OweDeviceTime(admitted->grant.cost.device_us);
  if (IsSentBack(understood->call)) {
    // Until it is sent.
    const std::uint64_t bytes = admitted->problem.d.size_bytes();
    Attach(admitted->quota.Split(AmountOf(Quantity::kRequestBytes, bytes)), &admitted->grant.d);
  }
  admitted->is_one_message = carrier == Carrier::kMessage;
  admitted->connection = request.connection;
  admitted->verification_vectors = static_cast<int>(request.verification_vectors);
  admitted->admission = {Stage::kAdmission, start, clock_->Now()};
  return admitted;
}

absl::StatusOr<QuotaAccounts::Hold> Admission::TakeQuota(const MatmulCall& call,
                                                         const Problem& problem) const {
  if (policy_.quotas == nullptr) return QuotaAccounts::Hold();
  QuotaAmounts amounts = AmountOf(Quantity::kRequests, 1);
  amounts[static_cast<std::size_t>(Quantity::kRequestBytes)] =
      InlineBytes(call, problem) + (IsSentBack(call) ? problem.d.size_bytes() : 0);
  absl::StatusOr<QuotaAccounts::Hold> hold = policy_.quotas->Take(call.tenant, amounts);
  policy_.quotas->Report(call.tenant, hold.status());
  return hold;
}

absl::Status Admission::CheckPriority(const MatmulCall& call) const {
  if (call.priority != Priority::kHigh) return absl::OkStatus();
  const Quota* const quota = call.tenant.quota();
  const bool has_own = quota != nullptr && quota->high_priority.has_value();
  const auto& high = policy_.high_priority_tenants;
  if (has_own ? *quota->high_priority : !high.has_value() || high->count(call.tenant.key()) != 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "priority is high, which tenant ", Quoted(call.tenant.key()), " may not have (",
      has_own ? "the quota's high_priority" : "scheduling.high_priority_tenants", ")"));
}

absl::StatusOr<Admission::Understood> Admission::Understand(const MatmulCall& request,
                                                            Carrier carrier) const {
  if (absl::Status s = CheckPriority(request); !s.ok()) return s;
  Understood understood;
  understood.call = request;
  MatmulCall& call = understood.call;
  if (call.keep_result.has_value() && store_ == nullptr) {
    return absl::UnimplementedError("keep_result is set: this server keeps no operands");
  }
  absl::StatusOr<ResidentOperands> residents = ResidentOperands::Find(store_, &call);
  if (!residents.ok()) return residents.status();
  RequestLimits limits = limits_;
  if (carrier == Carrier::kStream) limits.result_bytes = limits.request_bytes;
  absl::StatusOr<Problem> problem = ValidateHeader(call, limits);
  if (!problem.ok()) return problem.status();
  if (call.verification_vectors != 0 && verifier_ == nullptr) {
    return absl::UnimplementedError(
        "verification.vectors is set: this server verifies no products");
  }
  absl::StatusOr<SharedOperands> shared = SharedOperands::Find(regions_, call, *problem);
  if (!shared.ok()) return shared.status();
  understood.problem = *std::move(problem);
  understood.residents = *std::move(residents);
  understood.shared = *std::move(shared);
  return understood;
}

absl::StatusOr<MatmulEstimate> Admission::Estimate(const MatmulCall& request) const {
  if (absl::Status s = CheckServing(); !s.ok()) return s;
  absl::StatusOr<Understood> understood = Understand(request, Carrier::kStream);
  if (!understood.ok()) return understood.status();
  const MatmulCall& call = understood->call;
  absl::Status first_refusal;
  for (const ServedDevice& served : router_->ByPreference(understood->holder())) {
    absl::StatusOr<Offer> offer = OfferOf(served, call, understood->problem, understood->residents);
    if (!offer.ok()) {
      first_refusal.Update(offer.status());
      continue;
    }
    MatmulEstimate estimate;
    estimate.offer = *std::move(offer);
    estimate.problem = understood->problem;
    // If that is refused, because others would be late, all of them are assumed to go first.
    estimate.queue_us = served.scheduler
                            ->PredictWait({call.tenant.key(), call.priority, kNoDeadline,
                                           estimate.offer.cost.device_us,
                                           estimate.offer.cost.least_us, WeightOf(call.tenant)})
                            .value_or(served.scheduler->predicted_backlog_us());
    estimate.receive_bytes = InlineBytes(call, understood->problem);
    estimate.send_bytes = IsSentBack(call) ? understood->problem.d.size_bytes() : 0;
    const auto receive = TransferDirection::kReceive;
    const auto send = TransferDirection::kSend;
    estimate.receive_us = transport_.PredictUs(receive, estimate.receive_bytes);
    estimate.send_us = transport_.PredictUs(send, estimate.send_bytes);
    estimate.receive_is_measured = transport_.IsMeasured(receive, estimate.receive_bytes);
    estimate.send_is_measured = transport_.IsMeasured(send, estimate.send_bytes);
    return estimate;
  }
  return first_refusal;
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
  job->weight = WeightOf(request->tenant);
  job->submitter_is_free = request->is_one_message;
  job->connection = request->connection;
  job->cost = grant.cost;
  job->reservation = std::move(grant.reservation);
  job->work.problem = request->problem;
  job->work.plan = grant.plan;
  job->work.buffers = grant.payload->buffers();
  Overlay(grant.placed.buffers, &job->work.buffers);
  job->work.resident = std::move(grant.placed.resident);
  if (grant.kept != nullptr) job->work.resident.d = grant.kept->resident();
  job->work.weights_id = grant.placed.weights_id;
  job->work.buffers.d = grant.d;
  request->shared.Overlay(grant.shared, &job->work.buffers);

  Scheduler* const scheduler = grant.served.scheduler;
  // Operands in memory of the device's own are not copied, which the header did not tell.
  if (!request->shared.empty()) job->cost = scheduler->cost().Predict(job->work);

  Receipt& receipt = job->receipt;
  receipt.request_id = request_id;
  receipt.arrival = times.arrival;
  receipt.tenant = request->tenant.key();
  receipt.device = grant.served.device->traits().name;
  receipt.kernel = grant.plan.kernel->traits().name;
  receipt.plan = ToString(grant.plan.config);
  receipt.numerics_id = grant.plan.numerics_id;
  receipt.determinism = grant.plan.kernel->traits().determinism;
  receipt.error_bound = ErrorBound(request->problem, AccuracyOf(grant.plan.kernel->traits()));
  receipt.flops = request->problem.flops();
  receipt.payload_bytes_in = grant.payload->received_bytes();
  const bool is_sent_back = grant.kept == nullptr && !request->shared.has_output();
  receipt.payload_bytes_out = is_sent_back ? request->problem.d.size_bytes() : 0;
  job->host_bytes = receipt.payload_bytes_in + receipt.payload_bytes_out;
  receipt.shared_bytes_in = request->shared.bytes_in();
  receipt.shared_bytes_out = request->shared.bytes_out();
  receipt.landed_bytes = grant.moved.landed_bytes;
  receipt.evicted_bytes = grant.moved.evicted_bytes;
  receipt.connection = request->connection;
  receipt.trace = std::move(times.trace);
  receipt.spans = std::move(times.spans);
  receipt.spans.push_back(request->admission);
  const Cost& cost = job->cost;
  receipt.predicted = {cost.copy_in_us, cost.compute_us, cost.copy_out_us, cost.device_us};

  auto completion = std::make_unique<Completion>();
  completion->clock = clock_;
  completion->store = store_;
  completion->verifier = verifier_;
  completion->device = grant.served.device;
  completion->deadline = request->deadline;
  completion->tenant = request->tenant.key();
  completion->verification_vectors = request->verification_vectors;
  completion->kernel = grant.plan.kernel;
  completion->problem = request->problem;
  completion->buffers = job->work.buffers;
  if (verifier_ != nullptr) completion->resident = job->work.resident;
  completion->d = std::move(grant.d);
  completion->kept = std::move(grant.kept);
  completion->payload = std::move(grant.payload);
  completion->charge = std::move(grant.charge);
  completion->quota = std::move(request->quota);
  completion->residents = std::move(request->residents);
  completion->memory = std::move(grant.placed.memory);
  completion->shared = std::move(request->shared);
  completion->placed = std::move(grant.shared);
  completion->done = std::move(done);
  job->done = [completion = std::move(completion)](absl::Status status,
                                                   Receipt done_receipt) mutable {
    Complete(std::move(completion), std::move(status), std::move(done_receipt));
  };
  if (absl::Status s = scheduler->Submit(std::move(job)); !s.ok()) {
    return absl::IsResourceExhausted(s) ? FullNow(*scheduler, RefusalCause::kQueue, std::move(s))
                                        : s;
  }
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
  absl::StatusOr<Offer> offer = OfferOf(served, call, problem, residents);
  if (!offer.ok()) return offer.status();
  if (absl::Status s = CheckDeadline(served, call, deadline, offer->cost); !s.ok()) return s;
  Device& device = *served.device;
  const Footprint& footprint = offer->footprint;
  absl::StatusOr<Share> share = TakeShare(served, call, problem, shared, footprint);
  if (!share.ok()) {
    return FullNow(*served.scheduler, RefusalCause::kMemoryShare, share.status());
  }
  Grant grant;
  grant.served = served;
  grant.plan = std::move(offer->plan);
  grant.cost = offer->cost;
  Movement* const moved = &grant.moved;
  absl::Status status = WithRoom(&device, moved, [&] {
    absl::StatusOr<ResidentOperands::Placed> placed =
        residents.PlaceOn(&device, problem, &moved->landed_bytes);
    if (!placed.ok()) return placed.status();
    grant.placed = *std::move(placed);
    return absl::OkStatus();
  });
  if (status.ok()) {
    status = WithRoom(&device, moved, [&] {
      absl::StatusOr<MemoryReservation> reservation =
          device.memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
      if (!reservation.ok()) return reservation.status();
      grant.reservation = *std::move(reservation);
      return absl::OkStatus();
    });
  }
  if (status.ok() && call.keep_result.has_value()) status = AllocateKept(call, problem, &grant);
  if (status.ok()) {
    const auto allocate = [&] { return AllocateHost(call, problem, shared, &*share, &grant); };
    // Evicting what lies on a device with memory of its own would not help.
    status = device.uses_host_memory() ? WithRoom(&device, moved, allocate) : allocate();
  }
  if (absl::IsResourceExhausted(status)) {
    return FullNow(*served.scheduler, RefusalCause::kMemory, std::move(status));
  }
  if (!status.ok()) return status;
  grant.charge = std::move(share->charge);
  return grant;
}

absl::StatusOr<Admission::Share> Admission::TakeShare(const ServedDevice& served,
                                                      const MatmulCall& call,
                                                      const Problem& problem,
                                                      const SharedOperands& shared,
                                                      const Footprint& footprint) const {
  const HostMemoryLimits limits = served.device->host_memory_limits();
  const MemoryHolder holder = HolderOf(call);
  MemoryShares* const shares = shares_.at(served.device).get();
  std::vector<std::uint64_t> planes = InlinePayload::PlaneBytes(call, problem);
  if (limits.in_memory) planes.push_back(shared.bytes_in());  // is copied
  Share share;
  const bool stays_there = call.keep_result.has_value() && !served.device->uses_host_memory();
  if ((!shared.has_output() && !stays_there) || limits.in_memory) {
    share.result = PlaneMemory(limits, problem.d.size_bytes());
  }
  MemoryBytes rest;
  rest.device = footprint.in_flight_bytes + footprint.workspace_bytes;
  MemoryBytes operands;
  for (const std::uint64_t bytes : planes) operands = Sum(operands, PlaneMemory(limits, bytes));
  absl::StatusOr<MemoryShares::Charge> charge =
      shares->Take(holder, Sum(Sum(rest, operands), share.result));
  if (!charge.ok() && operands.large != 0) {
    // Large operands lie in ordinary memory as well, if more slowly; results do not.
    operands.ordinary = std::exchange(operands.large, 0);
    charge = shares->Take(holder, Sum(Sum(rest, operands), share.result));
    share.has_page_locked_operands = false;
  }
  if (!charge.ok()) return charge.status();
  share.charge = *std::move(charge);
  return share;
}

absl::StatusOr<Offer> Admission::OfferOf(const ServedDevice& served, const MatmulCall& call,
                                         const Problem& problem,
                                         const ResidentOperands& residents) const {
  const Device& device = *served.device;
  absl::StatusOr<Plan> plan = memo_->Select(device.Landed(problem), device.traits(), call.kernel);
  if (!plan.ok()) return plan.status();
  Offer offer;
  offer.served = served;
  Residency residency = residents.residency(device);
  residency.d = call.keep_result.has_value() && !device.uses_host_memory();
  offer.footprint = device.FootprintOf(problem, *plan, residency);
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
  offer.cost = served.scheduler->cost().Predict(problem, *plan, residency);
  offer.plan = *std::move(plan);
  return offer;
}

absl::Status Admission::AllocateHost(const MatmulCall& call, const Problem& problem,
                                     const SharedOperands& shared, Share* share,
                                     Grant* grant) const {
  Device* const device = grant->served.device;
  absl::StatusOr<std::unique_ptr<InlinePayload>> payload =
      InlinePayload::Create(call, problem, [device, share](std::uint64_t bytes) {
        return share->has_page_locked_operands ? device->AllocateOperand(bytes)
                                               : device->AllocateOrdinaryOperand(bytes);
      });
  if (!payload.ok()) return payload.status();
  grant->payload = *std::move(payload);
  absl::StatusOr<SharedOperands::Placed> placed = shared.PlaceOn(device);
  if (!placed.ok()) return placed.status();
  grant->shared = *std::move(placed);
  if (call.verification_vectors != 0 && SharedOperands::AnyInPlace(grant->shared)) {
    return absl::UnimplementedError(absl::StrCat(
        "verification.vectors is ", call.verification_vectors, ", and ", device->traits().name,
        " uses the shared memory of this request in place, where the CPU cannot verify it"));
  }
  if (!grant->shared.d.empty()) {
    grant->d = grant->shared.d;
    return absl::OkStatus();
  }
  if (grant->kept != nullptr) {
    grant->d = grant->kept->memory();
    return absl::OkStatus();
  }
  absl::StatusOr<HostBuffer> d = device->AllocateResult(problem.d);
  if (!d.ok()) return d.status();
  grant->d = *std::move(d);
  Attach(share->charge.Split(share->result), &grant->d);
  return absl::OkStatus();
}

absl::Status Admission::AllocateKept(const MatmulCall& call, const Problem& problem,
                                     Grant* grant) const {
  Device* const device = grant->served.device;
  const auto begin = [&] {
    absl::StatusOr<std::unique_ptr<PendingResult>> kept =
        store_->BeginResult(call.tenant, problem.d, call.keep_result->lease, device);
    if (!kept.ok()) return kept.status();
    grant->kept = *std::move(kept);
    return absl::OkStatus();
  };
  absl::Status status =
      device->uses_host_memory() ? WithRoom(device, &grant->moved, begin) : begin();
  if (!status.ok()) {
    status.SetPayload(kStoreIsFullUrl, absl::Cord());
    return status;
  }
  if (device->uses_host_memory()) return status;
  return WithRoom(device, &grant->moved, [&] { return grant->kept->PlaceOn(device); });
}

absl::Status Admission::WithRoom(Device* device, Movement* moved,
                                 const std::function<absl::Status()>& attempt) const {
  absl::Status status = attempt();
  while (absl::IsResourceExhausted(status) && store_ != nullptr) {
    std::optional<std::uint64_t> bytes;
    if (!device->uses_host_memory()) bytes = store_->MoveOutOf(device);
    if (!bytes.has_value() && !store_->EvictFrom(device)) break;
    moved->evicted_bytes += bytes.value_or(0);
    status = attempt();
  }
  return status;
}

absl::Status Admission::CheckDeadline(const ServedDevice& served, const MatmulCall& call,
                                      TimeNs deadline, const Cost& cost) const {
  if (deadline == kNoDeadline) return absl::OkStatus();
  const double left_us = static_cast<double>(deadline - clock_->Now()) / 1e3;
  if (left_us <= 0) return absl::DeadlineExceededError("the deadline passed before admission");
  if (left_us <= cost.least_us) {
    served.scheduler->ObserveRefusal(cost);
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline is ", std::llround(left_us),
                     " us away, and the product alone takes at least ", std::llround(cost.least_us),
                     " us by what was measured"));
  }
  if (served.scheduler->IsFarFrom(deadline, cost.device_us)) return absl::OkStatus();
  return served.scheduler
      ->PredictWait({call.tenant.key(), call.priority, deadline, cost.device_us, cost.least_us,
                     WeightOf(call.tenant)})
      .status();
}

absl::Status Admission::FullNow(const Scheduler& scheduler, RefusalCause cause,
                                absl::Status status) {
  if (IsQuotaRefusal(status)) return status;  // which does not end with the device's work
  const double backlog_ms = scheduler.predicted_backlog_us() / 1e3;
  return WithCause(WithRetryAfter(std::move(status),
                                  std::llround(std::clamp(backlog_ms, kMinRetryMs, kMaxRetryMs))),
                   cause);
}

}  // namespace gemmd
