#include "server/admission/admission.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"
#include "server/admission/charged_buffer.h"
#include "server/scheduling/draining.h"

namespace gemmd {
namespace {

std::uint64_t InlineBytes(const MatmulCall& call, const Problem& problem, const Stack& stack) {
  const std::vector<std::uint64_t> planes = InlinePayload::PlaneBytes(call, problem, stack);
  return std::accumulate(planes.begin(), planes.end(), std::uint64_t{0});
}

bool IsSentBack(const MatmulCall& call) {
  return !call.keep_result.has_value() && !call.output.has_value();
}

std::optional<double> WeightOf(const Tenant& tenant) {
  return tenant.quota() == nullptr ? std::nullopt : tenant.quota()->weight;
}

// Tells the work the addresses of its planes, and the completion what it needs of the work.
void FillWork(Completion* completion, DeviceWork* work) {
  const HostBuffers payload = completion->held.payload->buffers();
  for (const WorkPlane plane : kWorkPlanes) {
    if (payload[plane] != nullptr) work->buffers[plane] = payload[plane];
  }
  completion->held.shared.Overlay(completion->held.placed, &work->buffers);
  work->buffers.d = completion->d;
  if (completion->kept != nullptr) work->resident.d = completion->kept->resident();
  completion->held.buffers = work->buffers;
  if (completion->verifier != nullptr) completion->held.resident = work->resident;
}

// Fills in what is known before the payload comes.
void FillReceipt(const MatmulCall& call, const Completion& completion, Job* job) {
  const Problem& problem = job->work.problem;
  const Plan& plan = job->work.plan;
  Receipt& receipt = job->receipt;
  receipt.tenant = job->tenant;
  receipt.endpoint = call.endpoint;
  receipt.m = problem.m;
  receipt.n = problem.n;
  receipt.k = problem.k;
  receipt.products = static_cast<std::uint64_t>(job->work.stack.count);
  receipt.are_groups = job->work.stack.has_groups();
  receipt.types = TypesOf(problem);
  receipt.device = completion.device->traits().name;
  receipt.kernel = plan.kernel->traits().name;
  receipt.plan = ToString(plan.config);
  receipt.numerics_id = plan.numerics_id;
  receipt.determinism = plan.kernel->traits().determinism;
  receipt.error_bound = ErrorBound(problem, AccuracyOf(*plan.kernel));
  receipt.flops = job->work.flops();
  const bool is_sent_back = completion.kept == nullptr && !completion.held.shared.has_output();
  receipt.payload_bytes_out = is_sent_back ? ResultOf(problem, job->work.stack).size_bytes() : 0;
  receipt.shared_bytes_in = completion.held.shared.bytes_in();
  receipt.shared_bytes_out = completion.held.shared.bytes_out();
  receipt.connection = job->connection;
}

}  // namespace

Admission::Admission(const RequestLimits& limits, const Registry* registry, const Router* router,
                     const Clock* clock, const AdmissionHelpers& helpers, ClientPolicy policy)
    : limits_(limits),
      router_(router),
      clock_(clock),
      memo_(std::make_unique<PlanMemo>(registry, helpers.plans)),
      store_(helpers.store),
      regions_(helpers.regions),
      verifier_(helpers.verifier),
      policy_(std::move(policy)) {
  for (const ServedDevice& served : router->devices()) {
    const HostMemoryLimits host = served.device->host_memory_limits();
    const MemoryBytes limits{served.device->memory().usage().limit_bytes, host.small_bytes,
                             host.large_bytes, host.ordinary_bytes};
    shares_[served.device] =
        std::make_unique<Ledger>(MemoryRules(), MemoryShares(limits, policy_.memory_percent),
                                 nullptr, [room = policy_.room] {
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
  if (policy_.room != nullptr && policy_.room->IsKeptFrom([&] { return HeldBy(HolderOf(call)); })) {
    return FullNow(*router_->devices().front().scheduler, RefusalCause::kMemory,
                   absl::ResourceExhaustedError("memory is kept for a client that holds less"));
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

std::uint64_t Admission::HeldBy(const MemoryHolder& holder) const {
  std::uint64_t held = 0;
  for (const auto& [device, shares] : shares_) {
    const auto total_of = [ledger = shares.get()](Party party, const std::string& name) {
      return MemoryBytes::Of(ledger->UseOf(party, name).amounts).total();
    };
    held +=
        std::max(total_of(Party::kTenant, holder.tenant), total_of(Party::kAddress, holder.peer));
  }
  return held;
}

void Admission::AwaitMemory(std::uint64_t request_id, const MatmulCall& call, TimeNs deadline,
                            Carrier carrier, std::uint64_t message_bytes,
                            AdmitCallback done) const {
  // A call that waits takes quota too: its message is here.
  const auto quota = std::make_shared<Hold>();
  absl::StatusOr<ResolvedHeader> resolved = ResolveHeader(call, carrier);
  absl::Status status = resolved.status();
  std::uint64_t needed_bytes = 0;
  if (status.ok()) {
    for (const ServedDevice& served : RouteOf(*resolved)) {
      const absl::StatusOr<Offer> offer = OfferOf(served, *resolved);
      if (!offer.ok()) continue;
      needed_bytes = NeedOf(served, *resolved, offer->footprint).all().total();
      break;
    }
    absl::StatusOr<Hold> taken = TakeQuota(*resolved);
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
  request.needed_bytes = needed_bytes;
  request.held = [this, holder = request.holder] { return HeldBy(holder); };
  request.bytes = message_bytes;
  request.deadline = std::min(deadline, call.start_by);
  request.attempt = [this, call, deadline, carrier, told, quota, start = clock_->Now()] {
    // Looked at before, so that what is given back meanwhile is waited for.
    const bool may_get_better = IsMemoryInUse();
    absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted =
        AdmitNow(call, deadline, carrier, quota.get());
    if (may_get_better && MayWait(admitted.status())) {
      NoteWait(start, admitted.status());
      return CauseOf(admitted.status()) == RefusalCause::kMemory ? WaitingRoom::Attempt::kNoRoom
                                                                 : WaitingRoom::Attempt::kNoShare;
    }
    if (admitted.ok()) {
      (*admitted)->admission.start = start;
      // This thread has others to look after.
      (*admitted)->job->submitter_is_free = false;
    }
    std::move (*told)(std::move(admitted));
    return WaitingRoom::Attempt::kTold;
  };
  request.end = [told](absl::Status status) { std::move (*told)(std::move(status)); };
  if (absl::Status s = policy_.room->Add(std::move(request)); !s.ok()) {
    std::move (*told)(std::move(s));
  }
}

void Admission::NoteWait(TimeNs start, const absl::Status& refusal) const {
  constexpr TimeNs kLong = 500'000'000;
  constexpr TimeNs kUntilNextAttempt = 500'000'000;
  const TimeNs now = clock_->Now();
  if (CauseOf(refusal) == RefusalCause::kMemory && now - start >= kLong) {
    wanted_until_ = now + kUntilNextAttempt;
  }
}

absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admission::AdmitNow(const MatmulCall& request,
                                                                    TimeNs deadline,
                                                                    Carrier carrier,
                                                                    Hold* quota) const {
  const TimeNs start = clock_->Now();
  absl::StatusOr<ResolvedHeader> resolved = ResolveHeader(request, carrier);
  if (!resolved.ok()) return resolved.status();
  Hold own;
  if (quota == nullptr) {
    absl::StatusOr<Hold> taken = TakeQuota(*resolved);
    if (!taken.ok()) return taken.status();
    own = *std::move(taken);
    quota = &own;
  }
  const TimeNs done_by = DoneBy(*resolved, deadline);
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> admitted = FindRoom(*resolved, done_by);
  if (!admitted.ok()) return admitted.status();
  Job& job = *(*admitted)->job;
  job.deadline = done_by;
  job.start_by = request.start_by;
  job.priority = request.priority;
  job.tenant = request.tenant.key();
  job.weight = WeightOf(request.tenant);
  job.connection = request.connection;
  job.submitter_is_free = carrier == Carrier::kMessage;  // all of it comes at once
  Completion& completion = *(*admitted)->completion;
  completion.deadline = deadline;
  completion.tenant = request.tenant.key();
  completion.verification_vectors = static_cast<int>(request.verification_vectors);
  completion.held.residents = std::move(resolved->residents);
  completion.held.shared = std::move(resolved->shared);
  completion.held.quota = std::move(*quota);
  completion.ordering = std::move(resolved->ordering);
  completion.held.quota.OweDeviceTime(job.cost.device_us);
  if (IsSentBack(resolved->call)) {
    // Until it is sent.
    const std::uint64_t bytes = ResultOf(completion.problem, completion.stack).size_bytes();
    Attach(completion.held.quota.Split(AmountOf(Quantity::kRequestBytes, bytes)), &completion.d);
  }
  FillWork(&completion, &job.work);
  FillReceipt(request, completion, &job);
  (*admitted)->admission = {Stage::kAdmission, start, clock_->Now()};
  return admitted;
}

absl::StatusOr<Hold> Admission::TakeQuota(const ResolvedHeader& resolved) const {
  if (policy_.quotas == nullptr) return Hold();
  const MatmulCall& call = resolved.call;
  Amounts amounts = AmountOf(Quantity::kRequests, 1);
  amounts[static_cast<std::size_t>(Quantity::kRequestBytes)] =
      InlineBytes(call, resolved.problem, resolved.stack) +
      (IsSentBack(call) ? resolved.result().size_bytes() : 0);
  absl::StatusOr<Hold> hold = policy_.quotas->Take(call.tenant, amounts);
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

absl::StatusOr<Admission::ResolvedHeader> Admission::ResolveHeader(const MatmulCall& request,
                                                                   Carrier carrier) const {
  if (absl::Status s = CheckPriority(request); !s.ok()) return s;
  ResolvedHeader resolved;
  resolved.call = request;
  MatmulCall& call = resolved.call;
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
  absl::StatusOr<Ordering> ordering = OrderingOf(call, *problem);
  if (!ordering.ok()) return ordering.status();
  const absl::StatusOr<Stack> stack = ValidateBatch(call, *problem, limits);
  if (!stack.ok()) return stack.status();
  absl::StatusOr<SharedOperands> shared = SharedOperands::Find(regions_, call, *problem, *stack);
  if (!shared.ok()) return shared.status();
  resolved.ordering = *std::move(ordering);
  resolved.problem = *std::move(problem);
  resolved.stack = *stack;
  resolved.residents = *std::move(residents);
  resolved.shared = *std::move(shared);
  return resolved;
}

absl::StatusOr<MatmulEstimate> Admission::Estimate(const MatmulCall& request) const {
  if (absl::Status s = CheckServing(); !s.ok()) return s;
  absl::StatusOr<ResolvedHeader> resolved = ResolveHeader(request, Carrier::kStream);
  if (!resolved.ok()) return resolved.status();
  const MatmulCall& call = resolved->call;
  absl::Status first_refusal;
  for (const ServedDevice& served : RouteOf(*resolved)) {
    absl::StatusOr<Offer> offer = OfferOf(served, *resolved);
    if (!offer.ok()) {
      first_refusal.Update(offer.status());
      continue;
    }
    MatmulEstimate estimate;
    estimate.offer = *std::move(offer);
    estimate.problem = resolved->problem;
    estimate.stack = resolved->stack;
    // If that is refused, because others would be late, all of them are assumed to go first.
    estimate.queue_us = served.scheduler
                            ->PredictWait({call.tenant.key(), call.priority, kNoDeadline,
                                           estimate.offer.cost.device_us,
                                           estimate.offer.cost.least_us, WeightOf(call.tenant)})
                            .value_or(served.scheduler->predicted_backlog_us());
    estimate.receive_bytes = InlineBytes(call, resolved->problem, resolved->stack);
    estimate.send_bytes = IsSentBack(call) ? resolved->result().size_bytes() : 0;
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

void AdmittedMatmul::ExpectPayload() {
  expected = scheduler->Expect({job->tenant, job->priority, job->deadline, job->cost.device_us,
                                job->cost.least_us, job->weight});
}

absl::Status Admission::Submit(std::uint64_t request_id, std::unique_ptr<AdmittedMatmul> request,
                               RequestTimes times, Callback done) {
  if (absl::Status status = request->payload().Check(); !status.ok()) return status;
  Completion& completion = *request->completion;
  Job& job = *request->job;
  const TimeNs read_start = clock_->Now();
  if (absl::Status s = completion.held.shared.Read(completion.held.placed); !s.ok()) return s;
  Scheduler* const scheduler = request->scheduler;
  const Ordering& ordering = completion.ordering;
  if (ordering.order != nullptr) {
    PutInOrder(ordering, completion.problem, completion.held.OwnMemory(ordering.plane()));
  }
  if (!completion.held.shared.empty() || ordering.order != nullptr) {
    times.spans.push_back({Stage::kReceive, read_start, clock_->Now()});
  }
  if (!completion.held.shared.empty()) {
    // Operands in memory of the device's own are not copied, which the header did not tell.
    job.cost = scheduler->cost().Predict(job.work);
  }
  job.id = request_id;
  Receipt& receipt = job.receipt;
  receipt.request_id = request_id;
  receipt.arrival = times.arrival;
  receipt.payload_bytes_in = request->payload().received_bytes();
  job.host_bytes = receipt.payload_bytes_in + receipt.payload_bytes_out;
  receipt.trace = std::move(times.trace);
  receipt.spans = std::move(times.spans);
  receipt.spans.push_back(request->admission);
  const Cost& cost = job.cost;
  receipt.predicted = {cost.copy_in_us, cost.compute_us, cost.copy_out_us, cost.device_us};
  completion.done = std::move(done);
  job.done = [completion = std::move(request->completion)](absl::Status status,
                                                           Receipt done_receipt) mutable {
    Complete(std::move(completion), std::move(status), std::move(done_receipt));
  };
  request->expected = ExpectedJob();
  if (absl::Status s = scheduler->Submit(std::move(request->job)); !s.ok()) {
    return absl::IsResourceExhausted(s) ? FullNow(*scheduler, RefusalCause::kQueue, std::move(s))
                                        : s;
  }
  return absl::OkStatus();
}

// Not as it was measured: a client that reads slowly would shorten the others' time.
TimeNs Admission::DoneBy(const ResolvedHeader& resolved, TimeNs deadline) const {
  if (deadline == kNoDeadline || !IsSentBack(resolved.call)) return deadline;
  // Under overload many results are sent at once. With 3 times what a lone result takes more were
  // served in time than with 1 or 6 (docs/lab/overload.md).
  constexpr double kUnderLoad = 3;
  // An idle server sends faster, and is not to refuse what it can do.
  constexpr TimeNs kMostPart = 8;
  const double send_us = kUnderLoad * TransportModel::DefaultUs(resolved.result().size_bytes());
  const TimeNs left = std::max<TimeNs>(0, deadline - clock_->Now());
  return deadline - std::min(static_cast<TimeNs>(send_us * 1e3), left / kMostPart);
}

absl::Status Admission::CheckDeadline(const ServedDevice& served, const MatmulCall& call,
                                      TimeNs deadline, const Cost& cost) const {
  if (deadline == kNoDeadline) return absl::OkStatus();
  const double left_us = static_cast<double>(deadline - clock_->Now()) / 1e3;
  if (left_us <= 0) return absl::DeadlineExceededError("the deadline passed before admission");
  if (left_us <= cost.least_us) {
    served.scheduler->ObserveRefusal(cost);
    return absl::DeadlineExceededError(absl::StrCat(
        "the deadline leaves ", std::llround(left_us), " us, and the product alone takes at least ",
        std::llround(cost.least_us), " us by what was measured"));
  }
  if (served.scheduler->IsFarFrom(deadline, cost.device_us)) return absl::OkStatus();
  return served.scheduler
      ->PredictWait({call.tenant.key(), call.priority, deadline, cost.device_us, cost.least_us,
                     WeightOf(call.tenant)})
      .status();
}

}  // namespace gemmd
