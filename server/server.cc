#include "server/server.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/address.h"
#include "base/version.h"
#include "server/net/descriptor_limit.h"
#include "server/observe/log.h"
#include "server/preload/preload.h"
#include "server/rpc/calls/peer.h"
#include "server/settings/settings.h"
#include "server/tracing.h"

namespace gemmd {
namespace {

// The periods at which files, leases, requests that wait for memory, and calls whose clients may be
// late are looked at.
constexpr std::chrono::seconds kPolicyPeriod(1);
constexpr std::chrono::seconds kLeasePeriod(1);
constexpr std::chrono::milliseconds kRoomPeriod(10);
constexpr std::chrono::milliseconds kWatchPeriod(10);

// The address that clients name: the port is known once it was taken, and a socket of a path has
// none.
std::string BoundAddress(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The file's plans. A file that does not exist yet gives none; neither does one of another version
// or one that cannot be read, which the log then says: a server without measured plans is slower,
// and better than no server.
PlanCache LoadPlans(const std::string& path) {
  if (path.empty()) return PlanCache();
  absl::StatusOr<PlanCache> plans = PlanCache::Load(path, PlanVersion());
  if (plans.ok()) return *std::move(plans);
  if (absl::IsFailedPrecondition(plans.status())) {
    Log(Severity::kWarning, "plans_outdated", {{"error", plans.status().message()}});
  } else if (!absl::IsNotFound(plans.status())) {
    Log(Severity::kWarning, "plans_unreadable", {{"error", plans.status().message()}});
  }
  return PlanCache();
}

std::vector<Device*> DevicesOf(const Router& router) {
  std::vector<Device*> devices;
  for (const ServedDevice& each : router.devices()) devices.push_back(each.device);
  return devices;
}

GrpcServerOptions RpcOptionsHere(const config::ServerConfig& config) {
  const std::size_t descriptors = RaiseDescriptorLimit();
  GrpcServerOptions rpc = RpcOptions(config, descriptors);
  if (rpc.connections.all < WantedConnections(config.limits())) {
    Log(Severity::kWarning, "fewer_connections",
        {{"connections", rpc.connections.all}, {"file_descriptors", descriptors}});
  }
  return rpc;
}

void LogCannotStart(const absl::Status& status) {
  Log(Severity::kError, "cannot_start", {{"error", status.message()}});
}

}  // namespace

Server::Base::Base(const config::ServerConfig& config)
    : slow(SlowLogOptions(config.log())),
      tracer(MakeTracer(config.observe(), &clock)),
      statistics(&slow, tracer.ok() ? tracer->get() : nullptr),
      plans(LoadPlans(config.tuning().plan_cache_file())) {
  plans.set_shipped(&ShippedPlans());
}

std::unique_ptr<Server> Server::Start(const config::ServerConfig& config, const OnLost& on_lost,
                                      OnDrain on_drain, const IsStopped& is_stopped) {
  absl::StatusOr<std::unique_ptr<PolicyFile>> policy =
      PolicyFile::Open(config.auth().policy_file(), kPolicyPeriod);
  if (!policy.ok()) {
    LogCannotStart(policy.status());
    return nullptr;
  }
  (*policy)->LogExpiredTokens();
  auto base = std::make_unique<Base>(config);
  if (!base->tracer.ok()) {
    LogCannotStart(base->tracer.status());
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<Devices>> devices =
      Devices::Make(config, &base->clock, &base->plans, on_lost);
  if (!devices.ok()) {
    Log(Severity::kError, "cannot_start",
        {{"device", config.device()}, {"error", devices.status().message()}});
    return nullptr;
  }
  base->devices = *std::move(devices);
  std::unique_ptr<Server> server(
      new Server(config, *std::move(policy), std::move(base), std::move(on_drain)));
  if (!server->PreloadOperands(is_stopped)) return nullptr;
  if (!server->Listen() || !server->Observe()) return nullptr;
  server->LogStart();
  return server;
}

Server::Server(const config::ServerConfig& config, std::unique_ptr<PolicyFile> policy,
               std::unique_ptr<Base> base, OnDrain on_drain)
    : config_(config),
      policy_(std::move(policy)),
      base_(std::move(base)),
      rpc_(RpcOptionsHere(config)),
      audit_(&base_->clock),
      quotas_(&base_->clock,
              [this](const Tenant& tenant, const absl::Status& refusal) {
                audit_.OverQuota(tenant, refusal);
              }),
      store_(OperandOptions(config, base_->devices->memory_bytes(), DevicesOf(router()), &quotas_),
             router().devices().front().device, &base_->clock, std::random_device()()),
      regions_(SharedMemoryOptions(config.shared_memory(), &quotas_), DevicesOf(router()),
               &base_->clock, kLeasePeriod),
      verifier_(VerificationOptionsOf(config.verification())),
      room_(WaitingBounds(config, rpc_), &base_->clock, kRoomPeriod),
      admission_(LimitsOfRequests(), &BuiltinRegistry(), &base_->devices->router(), &base_->clock,
                 {&store_, &regions_, &verifier_, &base_->plans},
                 ClientPolicyOf(config, &room_, &quotas_)),
      tuner_({&BuiltinRegistry(), &base_->devices->router(), &admission_, &base_->plans,
              config.tuning().plan_cache_file()}),
      connections_(rpc_.connections, ProgressLimitOf(config.limits()), &base_->clock, &quotas_),
      watch_(
          WatchOptions(config.limits(), rpc_, &admission_), &base_->clock, kWatchPeriod,
          [this](const std::string& peer, absl::string_view why,
                 ConnectionTable::Reopening reopening) {
            if (connections_.Close(EndpointOf(peer), reopening)) {
              Log(Severity::kWarning, "connection_closed", {{"peer", peer}, {"why", why}});
            }
          },
          [this] { return connections_.ReadTraffic(); }),
      holdings_(AllHoldings()),
      authorizer_(policy_.get(), &audit_, AuthorizerOptions(config, &connections_)),
      door_{&watch_, &authorizer_},
      gemm_(&admission_, &base_->statistics, &base_->clock, door_, SessionOptions(config.limits())),
      operands_(&store_, &base_->devices->router(), door_, LimitsOfRequests(),
                static_cast<std::uint64_t>(config.limits().chunk_bytes())),
      regions_service_(&regions_, door_),
      admin_(AdminSources(std::move(on_drain)), door_),
      // Without such a tenant PreloadOperands() says what is wrong, and nothing is served.
      repository_(
          config.operands().preload(),
          PreloadTenant(config.operands().preload_tenant(), *policy_->policy()).value_or(Tenant()),
          LimitsOfRequests(), &store_),
      inference_({&admission_, &base_->statistics, &store_, &regions_, &repository_, &base_->clock},
                 door_, LimitsOfRequests(), SessionOptions(config.limits())) {}

RequestLimits Server::LimitsOfRequests() const {
  RequestLimits limits;
  limits.request_bytes = base_->devices->request_bytes();
  limits.result_bytes = rpc_.message_bytes;
  return limits;
}

AdminService::Sources Server::AdminSources(OnDrain on_drain) {
  AdminService::Sources sources;
  sources.drain = std::move(on_drain);
  sources.registry = &BuiltinRegistry();
  sources.router = &base_->devices->router();
  sources.admission = &admission_;
  sources.plans = &base_->plans;
  sources.tuner = &tuner_;
  sources.store = &store_;
  sources.regions = &regions_;
  sources.verifier = &verifier_;
  sources.statistics = &base_->statistics;
  sources.tracer = base_->tracer->get();
  sources.quotas = &quotas_;
  sources.holdings = &holdings_;
  sources.clock = &base_->clock;
  sources.message_bytes = rpc_.message_bytes;
  sources.calls_per_connection = static_cast<std::uint64_t>(rpc_.streams_per_connection);
  sources.max_queued_jobs = static_cast<std::uint64_t>(config_.scheduling().max_queued_requests()) *
                            router().devices().size();
  return sources;
}

HoldingsOverview Server::AllHoldings() {
  HoldingsOverview all;
  for (const ServedDevice& each : router().devices()) {
    all.Add(admission_.ledger_of(each.device), each.device->traits().name);
  }
  all.Add(store_.ledger());
  all.Add(regions_.ledger());
  all.Add(connections_.ledger());
  all.Add([this](std::size_t most) { return watch_.Read(most); });
  all.Add(watch_.slow_calls()->ledger());
  all.Add(quotas_.ledger());
  return all;
}

bool Server::PreloadOperands(const IsStopped& is_stopped) {
  const auto preload = [&] {
    const absl::StatusOr<std::vector<PreloadedFile>> files =
        OpenPreload(config_.operands().preload());
    if (!files.ok()) return files.status();
    const absl::StatusOr<Tenant> tenant =
        PreloadTenant(config_.operands().preload_tenant(), *policy_->policy());
    if (!tenant.ok()) return tenant.status();
    repository_.SetNames(*files);
    return Preload(*files, *tenant, LimitsOfRequests(), &store_, is_stopped);
  };
  const absl::Status status = preload();
  if (absl::IsCancelled(status)) {
    Log(Severity::kInfo, "stopped_at_start", {{"why", status.message()}});
  } else if (!status.ok()) {
    LogCannotStart(status);
  }
  return status.ok();
}

bool Server::Listen() {
  std::vector<grpc::Service*> services = {&gemm_, &operands_, &regions_service_, &admin_};
  if (rpc_.oip) services.push_back(&inference_);
  auto server = GrpcServer::Start(rpc_, services, &connections_, door_);
  if (!server.ok()) {
    LogCannotStart(server.status());
    return false;
  }
  server_ = *std::move(server);
  return true;
}

bool Server::Observe() {
  const std::string& listen = config_.observe().listen();
  if (listen.empty()) return true;
  Observability::Parts parts;
  parts.clock = &base_->clock;
  parts.policy = policy_.get();
  parts.audit = &audit_;
  parts.slow = &base_->slow;
  parts.server = {kVersion, HostName(), BoundAddress(config_.listen(), server_->port()),
                  base_->start};
  parts.metrics.router = &base_->devices->router();
  parts.metrics.gpus = base_->devices->sensors();
  parts.metrics.statistics = &base_->statistics;
  parts.metrics.tracer = base_->tracer->get();
  parts.metrics.store = &store_;
  parts.metrics.regions = &regions_;
  parts.metrics.verifier = &verifier_;
  parts.metrics.room = &room_;
  parts.metrics.admission = &admission_;
  parts.metrics.tuner = &tuner_;
  parts.metrics.measured_plans = [plans = &base_->plans] { return plans->size(); };
  parts.metrics.connections = &connections_;
  parts.metrics.holdings = &holdings_;
  auto started = Observability::Start(ObserveOptions(config_), std::move(parts));
  if (!started.ok()) {
    LogCannotStart(started.status());
    return false;
  }
  observability_ = *std::move(started);
  Log(Severity::kInfo, "observing", {{"address", BoundAddress(listen, observability_->port())}});
  return true;
}

void Server::LogStart() const {
  for (const ServedDevice& each : router().devices()) {
    const DeviceTraits& traits = each.device->traits();
    Log(Severity::kInfo, "device",
        {{"device", traits.name},
         {"model", traits.model},
         {"compute_units", traits.compute_units},
         {"f32_gflops", traits.f32_gflops},
         {"memory_bytes", each.device->memory().usage().limit_bytes}});
  }
  if (config_.tls().certificate_file().empty() && !IsLocalAddress(config_.listen())) {
    Log(Severity::kWarning, "insecure",
        {{"address", config_.listen()},
         {"why", "others can connect, and everything is sent in plain text"}});
  }
  Log(Severity::kInfo, "serving",
      {{"version", kVersion}, {"address", BoundAddress(config_.listen(), server_->port())}});
}

void Server::SetLimits(const config::ServerConfig& config) {
  const config::Limits& limits = config.limits();
  const GrpcServerOptions rpc = RpcOptionsHere(config);
  connections_.SetLimits(rpc.connections, ProgressLimitOf(limits));
  server_->SetLiveCalls(rpc.live_calls.all);
  watch_.SetLimits(CallLimits(limits));
  gemm_.SetSessionOptions(SessionOptions(limits));
  inference_.SetSessionOptions(SessionOptions(limits));
  operands_.SetChunkBytes(static_cast<std::uint64_t>(limits.chunk_bytes()));
  store_.SetLimits(
      OperandOptions(config, base_->devices->memory_bytes(), DevicesOf(router()), &quotas_));
  base_->slow.SetOptions(SlowLogOptions(config.log()));
  if (observability_ != nullptr) observability_->SetLimits(ObserveOptions(config).http);
}

void Server::ReloadFiles() {
  policy_->Reload();
  server_->ReloadTls().IgnoreError();  // which is logged
}

Drain Server::NewDrain() {
  return Drain({server_.get(), &gemm_, &inference_, &operands_, &base_->devices->router(),
                &connections_, &base_->statistics, &base_->clock});
}

void Server::Shutdown() {
  constexpr int kTimeoutMs = 1000;
  server_->Shutdown(kTimeoutMs);
}

}  // namespace gemmd
