#include "server/rpc/services/admin_service.h"

#include <memory>
#include <string>
#include <utility>

#include "base/text/quoted.h"
#include "base/time/units.h"
#include "base/version.h"
#include "server/admission/validation.h"
#include "server/observe/allocated_memory.h"
#include "server/rpc/codec/decode.h"
#include "server/rpc/codec/wire_types.h"
#include "server/rpc/reactors/tune_reactor.h"
#include "server/rpc/services/timelines.h"
#include "server/rpc/services/unary.h"

namespace gemmd {
namespace {

std::string Architecture(const DeviceTraits& traits) {
  if (traits.kind == DeviceKind::kCpu) return "cpu";
  const bool is_emulated = traits.kind == DeviceKind::kEmulated;
  return absl::StrCat(is_emulated ? "emulated sm_" : "sm_", traits.compute_capability);
}

v1::MemoryUsage EncodeMemory(const MemoryUsage& usage) {
  v1::MemoryUsage wire;
  wire.set_limit_bytes(usage.limit_bytes);
  wire.set_resident_bytes(usage.resident_bytes);
  wire.set_workspace_bytes(usage.workspace_bytes);
  wire.set_in_flight_bytes(usage.in_flight_bytes);
  wire.set_free_bytes(usage.free_bytes());
  return wire;
}

v1::OperandStatistics EncodeStore(const StoreStatistics& statistics) {
  v1::OperandStatistics wire;
  wire.set_residents(statistics.residents);
  wire.set_resident_bytes(statistics.resident_bytes);
  wire.set_partial_uploads(statistics.partial_uploads);
  wire.set_reserved_bytes(statistics.reserved_bytes);
  wire.set_limit_bytes(statistics.limit_bytes);
  wire.set_uploaded_bytes(statistics.uploaded_bytes);
  wire.set_repeated_bytes(statistics.repeated_bytes);
  wire.set_downloaded_bytes(statistics.downloaded_bytes);
  wire.set_hits(statistics.hits);
  wire.set_misses(statistics.misses);
  wire.set_evictions(statistics.evictions);
  wire.set_device_bytes(statistics.device_bytes);
  wire.set_landings(statistics.landings);
  wire.set_landed_bytes(statistics.landed_bytes);
  wire.set_moves_out(statistics.moves_out);
  wire.set_moved_out_bytes(statistics.moved_out_bytes);
  wire.set_fetched_bytes(statistics.fetched_bytes);
  wire.set_copies(statistics.copies);
  wire.set_copy_bytes(statistics.copy_bytes);
  wire.set_copies_dropped(statistics.copies_dropped);
  wire.set_copies_without_room(statistics.copies_without_room);
  return wire;
}

void EncodePart(const CostAccuracy::Part& part, v1::PredictionError* wire) {
  wire->set_count(part.count);
  wire->set_predicted_us(part.predicted_us);
  wire->set_measured_us(part.measured_us);
  wire->set_mean_absolute_relative_error(part.mean_absolute_relative_error());
}

void EncodeCost(const ServedDevice& served, v1::CostStatistics* wire) {
  const CostAccuracy accuracy = served.scheduler->cost().accuracy();
  wire->set_device(served.device->traits().name);
  EncodePart(accuracy.device, wire->mutable_device_time());
  EncodePart(accuracy.copy_in, wire->mutable_copy_in());
  EncodePart(accuracy.compute, wire->mutable_compute());
  EncodePart(accuracy.copy_out, wire->mutable_copy_out());
}

void EncodeLaunches(const SchedulerStatistics::Launches& launches, v1::LaunchStatistics* wire) {
  wire->set_launches(launches.launches);
  wire->set_requests(launches.jobs);
}

void EncodeQueue(const ServedDevice& served, v1::QueueStatistics* wire) {
  const SchedulerStatistics statistics = served.scheduler->statistics();
  wire->set_device(served.device->traits().name);
  wire->set_queued_requests(statistics.queued.jobs);
  wire->set_backlog_us(statistics.backlog_us);
  wire->set_limit_us(statistics.queue_limit_us);
  EncodeLaunches(statistics.of(BatchForm::kAlone), wire->mutable_alone());
  EncodeLaunches(statistics.of(BatchForm::kRows), wire->mutable_rows());
  EncodeLaunches(statistics.of(BatchForm::kGroup), wire->mutable_group());
  EncodeLaunches(statistics.of(BatchForm::kSlice), wire->mutable_slices());
  wire->set_late_in_queue(statistics.late_in_queue);
  wire->set_late_on_device(statistics.late_on_device);
  const CopiedBytes copied = served.device->copied();
  wire->set_copied_bytes_in(copied.in);
  wire->set_copied_bytes_out(copied.out);
}

v1::VerificationStatistics EncodeVerification(const VerificationStatistics& statistics) {
  v1::VerificationStatistics wire;
  wire.set_checked(statistics.checked);
  wire.set_failed(statistics.failed);
  wire.set_worst_residual(statistics.worst_residual);
  wire.set_dropped(statistics.dropped);
  wire.set_unverifiable(statistics.unverifiable);
  return wire;
}

// No kernel and no tenant is called so.
constexpr char kOther[] = "(other)";
constexpr double kUsPerSecond = 1e6;
constexpr int kTracesAtOnce = 4;  // of 32 MiB each

void EncodeKernel(const std::string& name, const Statistics::KernelTotals& totals,
                  v1::KernelStatistics* wire) {
  wire->set_kernel(name);
  wire->set_requests(totals.requests);
  wire->set_flops(totals.flops);
  wire->set_compute_us(totals.compute_seconds * kUsPerSecond);
}

void EncodeTenant(const std::string& name, const Statistics::TenantTotals& totals,
                  v1::TenantStatistics* wire) {
  wire->set_tenant(name);
  wire->set_ok_requests(totals.ok);
  wire->set_failed_requests(totals.failed);
  wire->set_payload_bytes(totals.payload_bytes);
  wire->set_flops(totals.flops);
  wire->set_compute_us(totals.compute_seconds * kUsPerSecond);
}

void EncodeByName(const Statistics::ByName& by_name, v1::StatisticsResponse* response) {
  for (const auto& [name, totals] : by_name.kernels) {
    EncodeKernel(name, totals, response->add_kernels());
  }
  if (by_name.other_kernels.requests != 0) {
    EncodeKernel(kOther, by_name.other_kernels, response->add_kernels());
  }
  for (const auto& [name, totals] : by_name.tenants) {
    EncodeTenant(name, totals, response->add_tenants());
  }
  if (by_name.other_tenants.ok + by_name.other_tenants.failed != 0) {
    EncodeTenant(kOther, by_name.other_tenants, response->add_tenants());
  }
}

void EncodeDevice(Device* device, v1::DeviceInfo* wire) {
  const DeviceTraits& traits = device->traits();
  wire->set_name(traits.name);
  wire->set_model(traits.model);
  wire->set_architecture(Architecture(traits));
  wire->set_compute_units(traits.compute_units);
  *wire->mutable_memory() = EncodeMemory(device->memory().usage());
  const MemoryUsage pinned = device->host_memory_usage();
  if (pinned.limit_bytes != 0) *wire->mutable_pinned_memory() = EncodeMemory(pinned);
}

// All but its name; nothing where it has no quota.
void EncodeQuota(const Tenant& tenant, const Quotas& accounts, v1::TenantQuota* wire) {
  if (tenant.quota() == nullptr) return;
  const Quota& quota = *tenant.quota();
  const Ledger::Use use = accounts.UseOf(tenant);
  for (const Quantity quantity : kAllQuantities) {
    v1::QuotaUse* const each = wire->add_uses();
    each->set_quota(std::string(Name(quantity)));
    each->set_used(use.amounts[static_cast<std::size_t>(quantity)]);
    if (quota.limit(quantity).has_value()) each->set_limit(*quota.limit(quantity));
  }
  if (quota.device_share.has_value()) wire->set_device_ms_per_second(*quota.device_share * 1e3);
  wire->set_owed_ms(static_cast<double>(use.owed) / 1e6);
  if (quota.high_priority.has_value()) wire->set_high_priority(*quota.high_priority);
  if (quota.weight.has_value()) wire->set_weight(*quota.weight);
}

v1::Holding::Party ToWire(Party party) {
  switch (party) {
    case Party::kTenant:
      return v1::Holding::TENANT;
    case Party::kAddress:
      return v1::Holding::ADDRESS;
    case Party::kAll:
      return v1::Holding::ALL;
  }
  return v1::Holding::PARTY_UNSPECIFIED;
}

// Has the server end when its call does, whose answer is on its way then. A server without work
// would close the connection before.
struct DrainAtEnd {
  DrainAtEnd() = default;
  DrainAtEnd(const DrainAtEnd&) = delete;
  DrainAtEnd& operator=(const DrainAtEnd&) = delete;
  ~DrainAtEnd() {
    if (drain) drain();
  }

  std::function<void()> drain;  // empty: the call was refused
};

absl::Status TellHoldings(std::uint32_t holders, const Roles& roles,
                          const HoldingsOverview& holdings, v1::StatisticsResponse* response) {
  constexpr std::uint32_t kMostHolders = 100;
  if (holders == 0) return absl::OkStatus();
  if (!roles.Has(Role::kOperator)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "holders is ", holders, ", which is for operators; the caller is ", ToString(roles)));
  }
  if (holders > kMostHolders) {
    return absl::InvalidArgumentError(
        absl::StrCat("holders is ", holders, "; it may be at most ", kMostHolders));
  }
  for (Holding& each : holdings.All(holders)) {
    v1::Holding* const wire = response->add_holdings();
    wire->set_quantity(std::move(each.quantity));
    wire->set_device(std::move(each.device));
    wire->set_party(ToWire(each.party));
    wire->set_name(std::move(each.name));
    wire->set_held(each.held);
    if (each.limit != kUnlimited) wire->set_limit(each.limit);
  }
  return absl::OkStatus();
}

absl::Status TellQuota(const std::string& name, const Policy& policy, const Quotas& accounts,
                       v1::TenantQuota* wire) {
  constexpr std::size_t kMostCharacters = 4096;
  if (name.size() > kMostCharacters) {
    return absl::InvalidArgumentError(
        absl::StrCat("tenant has ", name.size(), " characters; it may have ", kMostCharacters));
  }
  if (policy.is_open()) {
    return absl::FailedPreconditionError(
        absl::StrCat("tenant is ", Quoted(name),
                     ": the server has no policy, and so no quotas (--auth.policy-file)"));
  }
  wire->set_tenant(name);
  EncodeQuota(policy.TenantOf(name), accounts, wire);
  return absl::OkStatus();
}

}  // namespace

AdminService::AdminService(const Sources& sources, const Door& door)
    : RawService(door),
      sources_(sources),
      start_(sources.clock->Now()),
      traces_(kTracesAtOnce, sources.clock) {
  CallWatch* const watch = door.watch;
  Serve("ServerInfo", [this, watch](Context* context, const Login& login) {
    return HandleUnary<v1::ServerInfoRequest>(
        watch, context, [this, tenant = login.identity.tenant](const v1::ServerInfoRequest&) {
          v1::ServerInfoResponse info = Info();
          if (tenant.quota() != nullptr) {
            EncodeQuota(tenant, *sources_.quotas, info.mutable_quota());
          }
          return absl::StatusOr<v1::ServerInfoResponse>(std::move(info));
        });
  });
  Serve("ListKernels", [this, watch](Context* context, const Login&) {
    return HandleUnary<v1::ListKernelsRequest>(
        watch, context, [this](const v1::ListKernelsRequest& request) { return Kernels(request); });
  });
  Serve("Statistics", [this, watch](Context* context, const Login& login) {
    using Response = absl::StatusOr<v1::StatisticsResponse>;
    return HandleUnary<v1::StatisticsRequest>(
        watch, context,
        [this, policy = login.policy,
         roles = login.identity.roles](const v1::StatisticsRequest& request) -> Response {
          v1::StatisticsResponse response = Counts();
          absl::Status s = TellHoldings(request.holders(), roles, *sources_.holdings, &response);
          if (s.ok() && request.has_tenant()) {
            s = TellQuota(request.tenant(), *policy, *sources_.quotas, response.mutable_quota());
          }
          if (!s.ok()) return s;
          return response;
        });
  });
  Serve("Traces", [this, watch](Context* context, const Login& login) {
    return HandleUnary<v1::TracesRequest>(
        watch, context,
        [this, identity = login.identity, place = std::make_shared<CostlyCalls::Place>()](
            const v1::TracesRequest& request) -> absl::StatusOr<v1::TracesResponse> {
          absl::StatusOr<CostlyCalls::Place> entered = traces_.Enter();
          if (!entered.ok()) return entered.status();
          *place = *std::move(entered);  // until the call's end, when its answer was read
          const TimeNs begin = sources_.clock->Now();
          absl::StatusOr<v1::TracesResponse> traces =
              CollectTimelines(*sources_.tracer, request, identity, begin);
          traces_.Worked(begin);
          return traces;
        });
  });
  Serve("Drain", [this, watch](Context* context, const Login& login) {
    using Response = absl::StatusOr<v1::DrainResponse>;
    return HandleUnary<v1::DrainRequest>(
        watch, context,
        [this, policy = login.policy,
         ending = std::make_shared<DrainAtEnd>()](const v1::DrainRequest&) -> Response {
          // Without a policy every caller has every role, an operator's too.
          if (policy->is_open()) {
            return absl::FailedPreconditionError(
                "the server has no policy (--auth.policy-file), so anybody could end it: send its "
                "process SIGTERM");
          }
          v1::DrainResponse response;
          response.set_requests(sources_.statistics->Read().in_flight);
          response.set_uploads(sources_.store->statistics().partial_uploads);
          ending->drain = sources_.drain;
          return response;
        });
  });
  Serve("Tune", [this, watch](Context* context, const Login& login) {
    return new TuneReactor(sources_.tuner, sources_.admission->limits(), watch,
                           login.identity.tenant.key(), context);
  });
}

v1::ServerInfoResponse AdminService::Info() const {
  v1::ServerInfoResponse info;
  info.set_version(kVersion);
  SetUptime(info.mutable_uptime());
  info.mutable_limits()->set_message_bytes(sources_.message_bytes);
  info.mutable_limits()->set_dimension(sources_.admission->limits().dimension);
  info.mutable_limits()->set_request_bytes(sources_.admission->limits().request_bytes);
  info.mutable_limits()->set_queue_requests(sources_.max_queued_jobs);
  info.mutable_limits()->set_calls_per_connection(sources_.calls_per_connection);
  for (const ServedDevice& each : sources_.router->devices()) {
    EncodeDevice(each.device, info.add_devices());
  }
  info.set_draining(sources_.router->draining());
  const std::vector<std::string>& prefixes = sources_.regions->options().name_prefixes;
  if (!prefixes.empty()) info.set_shared_memory_prefix(prefixes.front());
  return info;
}

absl::StatusOr<v1::ListKernelsResponse> AdminService::Kernels(
    const v1::ListKernelsRequest& request) const {
  const DeviceTraits& traits = first_device().traits();
  v1::ListKernelsResponse response;
  for (const auto& kernel : sources_.registry->kernels()) {
    v1::Kernel* wire = response.add_kernels();
    wire->set_name(kernel->traits().name);
    wire->set_architecture(kernel->traits().architecture);
    wire->set_description(kernel->traits().description);
    wire->set_determinism(ToWire(kernel->traits().determinism));
    wire->set_unavailable_reason(kernel->UnavailableReason(traits));
  }
  if (!request.has_explain()) return response;
  const absl::StatusOr<MatmulCall> call = DecodeShape("explain", request.explain());
  if (!call.ok()) return call.status();
  RequestLimits limits = sources_.admission->limits();
  limits.result_bytes = limits.request_bytes;  // what a stream may carry
  const absl::StatusOr<Problem> problem = ValidateHeader(*call, limits);
  if (!problem.ok()) return problem.status();
  for (const Candidate& candidate :
       Explain(*sources_.registry, first_device().Landed(*problem), traits, {}, sources_.plans)) {
    v1::Candidate* wire = response.add_candidates();
    wire->set_kernel(candidate.kernel->traits().name);
    wire->set_rejection(candidate.rejection);
    wire->set_plan(ToString(candidate.plan.config));
    wire->set_predicted_us(candidate.plan.predicted_us);
    wire->set_chosen(candidate.chosen);
    wire->set_measured(candidate.plan.is_measured);
  }
  return response;
}

v1::StatisticsResponse AdminService::Counts() const {
  const gemmd::Statistics::Snapshot totals = sources_.statistics->Read();
  v1::StatisticsResponse response;
  SetUptime(response.mutable_uptime());
  response.set_received_requests(totals.received);
  response.set_admitted_requests(sources_.router->requests());
  for (const auto& [code, count] : totals.finished) {
    (*response.mutable_finished_requests())[code] = count;
  }
  for (std::size_t i = 0; i < kRefusalCauses; ++i) {
    if (totals.refused[i] == 0) continue;
    const std::string cause(Name(static_cast<RefusalCause>(i)));
    (*response.mutable_refused_requests())[cause] = totals.refused[i];
  }
  EncodeByName(sources_.statistics->ReadByName(), &response);
  response.set_in_flight_requests(totals.in_flight);
  response.set_queued_requests(sources_.router->queued().jobs);
  for (const ServedDevice& each : sources_.router->devices()) {
    const MemoryUsage usage = each.device->memory().usage();
    response.set_reserved_bytes(response.reserved_bytes() + usage.in_flight_bytes +
                                usage.workspace_bytes);
    EncodeCost(each, response.add_costs());
    EncodeQueue(each, response.add_queues());
  }
  response.set_allocated_bytes(AllocatedBytes());
  response.set_payload_bytes_in(totals.payload_bytes_in);
  response.set_payload_bytes_out(totals.payload_bytes_out);
  response.set_flops(totals.flops);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const gemmd::Statistics::StageTotals& stage = totals.stages[i];
    if (stage.count == 0) continue;
    v1::StageStatistics* wire = response.add_stages();
    wire->set_name(ToWire(static_cast<Stage>(i)));
    wire->set_count(stage.count);
    wire->set_sum_us(static_cast<double>(stage.sum) / 1e3);
    wire->set_max_us(static_cast<double>(stage.max) / 1e3);
  }
  *response.mutable_operands() = EncodeStore(sources_.store->statistics());
  *response.mutable_verification() = EncodeVerification(sources_.verifier->statistics());
  v1::SharedMemoryStatistics* const shared = response.mutable_shared_memory();
  const RegionTable::Usage usage = sources_.regions->usage();
  shared->set_regions(usage.regions);
  shared->set_region_bytes(usage.bytes);
  shared->set_limit_bytes(sources_.regions->options().max_bytes);
  shared->set_bytes_in(totals.shared_bytes_in);
  shared->set_bytes_out(totals.shared_bytes_out);
  return response;
}

void AdminService::SetUptime(google::protobuf::Duration* uptime) const {
  const TimeNs elapsed = sources_.clock->Now() - start_;
  uptime->set_seconds(elapsed / kSecond);
  uptime->set_nanos(static_cast<std::int32_t>(elapsed % kSecond));
}

}  // namespace gemmd
