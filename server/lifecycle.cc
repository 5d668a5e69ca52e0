#include "server/lifecycle.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/admission/admission.h"
#include "server/admission/percent.h"
#include "server/admission/tuner.h"
#include "server/auth/audit.h"
#include "server/auth/policy_file.h"
#include "server/devices.h"
#include "server/drain.h"
#include "server/net/connection_table.h"
#include "server/net/descriptor_limit.h"
#include "server/observability.h"
#include "server/observe/log.h"
#include "server/observe/slow_log.h"
#include "server/observe/statistics.h"
#include "server/process.h"
#include "server/process_memory.h"
#include "server/regions/region_table.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/authorizer.h"
#include "server/rpc/call_watch.h"
#include "server/rpc/gemm_service.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/operands_service.h"
#include "server/rpc/peer.h"
#include "server/rpc/regions_service.h"
#include "server/scheduling_options.h"
#include "server/store/operand_store.h"
#include "server/verification/verifier.h"
#include "text/address.h"
#include "version.h"

namespace gemmd {
namespace {

Severity LogThreshold(const std::string& level) {
  if (level == "debug") return Severity::kDebug;
  if (level == "warning") return Severity::kWarning;
  if (level == "error") return Severity::kError;
  return Severity::kInfo;
}

// Messages under way are few beside operands and results, which take half.
constexpr std::uint64_t kReceiveMemoryPart = 8;

// A connection takes some 100 KB of gRPC's memory, and more with its calls.
std::size_t WantedConnections(const config::Limits& limits) {
  constexpr std::uint64_t kBytesEach = 1 << 20;
  constexpr std::uint64_t kFew = 64;
  constexpr std::uint64_t kMany = 4096;
  return limits.connections() != 0 ? static_cast<std::size_t>(limits.connections())
                                   : std::clamp(ProcessMemoryBytes() / kBytesEach, kFew, kMany);
}

// A call that does nothing takes some 20 KB of gRPC's memory: a sixth of the process's, then.
std::size_t CallsOf(const config::Limits& limits) {
  constexpr std::uint64_t kBytesEach = 1 << 17;
  constexpr std::uint64_t kFew = 256;
  constexpr std::uint64_t kMany = 65536;
  return limits.calls() != 0 ? static_cast<std::size_t>(limits.calls())
                             : std::clamp(ProcessMemoryBytes() / kBytesEach, kFew, kMany);
}

TlsFiles TlsFilesOf(const config::Tls& config) {
  TlsFiles files;
  files.certificate_file = config.certificate_file();
  files.key_file = config.key_file();
  files.client_ca_file = config.client_ca_file();
  files.crl_directory = config.crl_directory();
  const std::string& which = config.client_certificates();
  const bool is_required =
      which == "required" || (which == "auto" && !files.client_ca_file.empty());
  files.client_certificates = is_required           ? ClientCertificates::kRequired
                              : which == "optional" ? ClientCertificates::kOptional
                                                    : ClientCertificates::kNone;
  return files;
}

// Between connections of one address.
TimeNs ConnectionInterval(const config::Limits& limits) {
  constexpr TimeNs kSecond = 1000000000;
  const TimeNs per_second = limits.connections_per_second();
  return per_second == 0 ? 0 : kSecond / per_second;
}

GrpcServerOptions RpcOptions(const config::ServerConfig& config, std::size_t descriptors) {
  GrpcServerOptions options;
  options.listen = config.listen();
  options.message_bytes = static_cast<std::uint64_t>(config.limits().message_bytes());
  options.memory_bytes =
      config.limits().receive_memory_bytes() != 0
          ? static_cast<std::uint64_t>(config.limits().receive_memory_bytes())
          : std::max(ProcessMemoryBytes() / kReceiveMemoryPart, options.message_bytes);
  options.streams_per_connection = static_cast<int>(config.limits().streams_per_connection());
  // An overloaded server has been seen to keep 16 times as many of a client that gave up on all of
  // its calls every 20 ms. A client that resets them makes more in 50 ms.
  constexpr std::size_t kBeforeTold = 32;
  options.live_calls.all = CallsOf(config.limits());
  options.live_calls.per_connection_if_full =
      static_cast<std::size_t>(config.limits().streams_per_connection());
  options.live_calls.per_connection = kBeforeTold * options.live_calls.per_connection_if_full;
  options.connections.all =
      std::min(WantedConnections(config.limits()), DescriptorsForConnections(descriptors));
  options.connections.per_peer =
      config.limits().connections_per_peer() != 0
          ? static_cast<std::size_t>(config.limits().connections_per_peer())
          : (options.connections.all + 3) / 4;
  options.connections.interval = ConnectionInterval(config.limits());
  options.connections.proxies = NamesOf(config.limits().proxies());
  options.connection_age_ms = static_cast<int>(config.limits().connection_age_ms());
  options.connection_idle_ms = static_cast<int>(config.limits().connection_idle_ms());
  options.channelz = config.channelz() == "on";
  options.tls = TlsFilesOf(config.tls());
  return options;
}

std::size_t HalfOf(std::size_t whole) { return std::max<std::size_t>(1, whole / 2); }

StoreOptions OperandOptions(const config::Operands& config, std::uint64_t device_bytes,
                            const std::vector<Device*>& devices, QuotaAccounts* quotas) {
  constexpr TimeNs kMillisecond = 1000000;
  StoreOptions options;
  options.quotas = quotas;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(options.landing_devices),
               [](const Device* device) { return !device->uses_host_memory(); });
  options.all = {static_cast<std::uint64_t>(config.max_operands()),
                 config.memory_bytes() != 0 ? static_cast<std::uint64_t>(config.memory_bytes())
                                            : device_bytes / 2};
  options.tenant = {PercentOf(options.all.operands, config.tenant_percent()),
                    config.tenant_bytes() != 0
                        ? static_cast<std::uint64_t>(config.tenant_bytes())
                        : PercentOf(options.all.bytes, config.tenant_percent())};
  options.default_lease = config.default_lease_ms() * kMillisecond;
  options.max_lease = config.max_lease_ms() * kMillisecond;
  options.upload_lease = config.upload_lease_ms() * kMillisecond;
  return options;
}

ProgressLimit ProgressLimitOf(const config::Limits& limits) {
  ProgressLimit limit;
  limit.window = limits.stall_timeout_ms() * 1000000;
  limit.bytes_per_second = static_cast<std::uint64_t>(limits.min_bytes_per_second());
  return limit;
}

// Calls that are slow to bring their message may hold half of what gRPC may. One address may have
// half of the calls, and of the slow ones.
CallWatch::Options WatchOptions(const config::Limits& limits, const GrpcServerOptions& rpc) {
  CallWatch::Options options;
  options.progress = ProgressLimitOf(limits);
  options.message_bytes = rpc.message_bytes;
  options.slow.all = HalfOf(rpc.memory_bytes / rpc.message_bytes);
  options.slow.per_address = HalfOf(options.slow.all);
  options.proxies = options.slow.proxies = rpc.connections.proxies;
  options.calls = CallsOf(limits);
  options.calls_per_address = HalfOf(options.calls);
  return options;
}

MatmulSession::Options SessionOptions(const config::Limits& limits) {
  MatmulSession::Options options;
  options.max_requests = static_cast<std::size_t>(limits.requests_per_session());
  options.chunk_bytes = static_cast<std::uint64_t>(limits.chunk_bytes());
  options.small_result_bytes = std::min(options.small_result_bytes, options.chunk_bytes);
  options.progress = ProgressLimitOf(limits);
  return options;
}

RegionOptions SharedMemoryOptions(const config::SharedMemory& config, QuotaAccounts* quotas) {
  constexpr TimeNs kMillisecond = 1000000;
  RegionOptions options;
  options.quotas = quotas;
  options.name_prefix = config.name_prefix();
  options.cuda_ipc = config.cuda_ipc() == "on";
  options.max_regions = static_cast<std::uint64_t>(config.max_regions());
  options.max_bytes = static_cast<std::uint64_t>(config.max_bytes());
  options.tenant_regions = PercentOf(options.max_regions, config.tenant_percent());
  options.tenant_bytes = PercentOf(options.max_bytes, config.tenant_percent());
  options.default_lease = config.default_lease_ms() * kMillisecond;
  options.max_lease = config.max_lease_ms() * kMillisecond;
  return options;
}

VerifierOptions VerificationOptionsOf(const config::Verification& config) {
  constexpr unsigned kUsualThreads = 4;
  VerifierOptions options;
  options.sampled_per_million = static_cast<std::uint32_t>(config.sampled_per_million());
  options.threads =
      config.threads() != 0
          ? static_cast<int>(config.threads())
          : static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kUsualThreads));
  options.seed = std::uint64_t{std::random_device()()} << 32U | std::random_device()();
  return options;
}

WaitingRoom::Bounds WaitingBounds(const config::ServerConfig& config,
                                  const GrpcServerOptions& rpc) {
  const config::Scheduling& scheduling = config.scheduling();
  WaitingRoom::Bounds bounds;
  bounds.requests = static_cast<std::size_t>(scheduling.max_queued_requests());
  // Half of what gRPC may hold, so that others' messages still come.
  bounds.bytes = rpc.memory_bytes / 2;
  bounds.client_percent = static_cast<int>(scheduling.tenant_percent());
  bounds.longest = scheduling.max_queued_ms() * 1000000;
  return bounds;
}

ClientPolicy ClientPolicyOf(const config::ServerConfig& config, WaitingRoom* room,
                            QuotaAccounts* quotas) {
  ClientPolicy policy;
  policy.quotas = quotas;
  policy.memory_percent = static_cast<int>(config.scheduling().tenant_percent());
  policy.room = room;
  policy.proxies = NamesOf(config.limits().proxies());
  const std::set<std::string> high = NamesOf(config.scheduling().high_priority_tenants());
  if (high.count("*") == 0) policy.high_priority_tenants = high;
  return policy;
}

std::vector<Device*> DevicesOf(const Router& router) {
  std::vector<Device*> devices;
  for (const ServedDevice& each : router.devices()) devices.push_back(each.device);
  return devices;
}

bool HoldsSecrets(const config::ServerConfig& config) {
  return !config.tls().key_file().empty() || !config.auth().policy_file().empty();
}

Authorizer::Options AuthorizerOptions(const config::ServerConfig& config,
                                      ConnectionTable* connections) {
  Authorizer::Options options;
  options.count_connection = [connections](const Tenant& tenant, const std::string& peer) {
    return connections->CountFor(tenant, EndpointOf(peer));
  };
  options.is_encrypted = !config.tls().certificate_file().empty();
  options.plaintext_tokens = config.auth().plaintext_tokens() == "on";
  return options;
}

SlowLog::Options SlowLogOptions(const config::Log& config) {
  constexpr TimeNs kMillisecond = 1000000;
  return {config.slow_ms() * kMillisecond, static_cast<int>(config.slow_per_second())};
}

Observability::Options ObserveOptions(const config::ServerConfig& config) {
  const config::Observe& observe = config.observe();
  Observability::Options options;
  options.plaintext_tokens = config.auth().plaintext_tokens() == "on";
  options.http.listen = observe.listen();
  options.http.connections.all = static_cast<std::size_t>(observe.connections());
  options.http.connections.per_peer = HalfOf(options.http.connections.all);
  options.http.connections.interval = ConnectionInterval(config.limits());
  options.http.connections.look_interval = 0;  // they are few
  options.http.connections.proxies = NamesOf(config.limits().proxies());
  options.http.reading = ProgressLimitOf(config.limits());
  options.http.timeout_ms = observe.timeout_ms();
  options.http.tls = TlsFilesOf(config.tls());
  return options;
}

// How often calls are looked at whose clients may be late.
constexpr std::chrono::milliseconds kWatchPeriod(100);

// What the process is told, as values in the order they came: SIGTERM, SIGINT, SIGHUP and a
// device's loss. Each is written into a pipe. (Blocking the signals for sigwait() would need
// every thread to do so, and OpenBLAS starts threads before main().)
class Signals {
 public:
  static constexpr int kDeviceLost = SIGUSR1;  // which is never caught

  Signals() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();  // the process has no files left
    read_end_ = ends[0];
    write_end = ends[1];
    struct sigaction action {};
    action.sa_handler = Raise;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGHUP, &action, nullptr);
  }

  // Safe in signal handlers and on any thread.
  static void Raise(int signal) {
    const auto byte = static_cast<char>(signal);
    static_cast<void>(!write(write_end, &byte, 1));
  }

  // The next signal; 0 if none came for `timeout_ms`, where -1 waits for ever.
  int Wait(int timeout_ms) const {
    pollfd file{read_end_, POLLIN, 0};
    char byte = 0;
    do {
      const int ready = poll(&file, 1, timeout_ms);
      if (ready == 0) return 0;
    } while (read(read_end_, &byte, 1) != 1);
    return byte;
  }
  // Whether another one came than SIGHUP, which has nothing to say to a server that drains.
  bool AwaitStop(int timeout_ms) const {
    const int signal = Wait(timeout_ms);
    return signal != 0 && signal != SIGHUP;
  }

 private:
  static inline int write_end = -1;
  int read_end_ = -1;
};

// What clients name: the port is known once it was taken, and a socket of a path has none.
std::string BoundAddress(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

// The file's plans. A file that does not exist yet gives none; neither does one of another version
// or one that cannot be read, which the log then says: a server without measured plans is slower,
// and better than no server.
PlanCache LoadPlans(const std::string& path) {
  if (path.empty()) return PlanCache();
  const absl::StatusOr<PlanCache> plans = PlanCache::Load(path, PlanVersion());
  if (plans.ok()) return *plans;
  if (absl::IsFailedPrecondition(plans.status())) {
    Log(Severity::kWarning, "plans_outdated", {{"error", plans.status().message()}});
  } else if (!absl::IsNotFound(plans.status())) {
    Log(Severity::kWarning, "plans_unreadable", {{"error", plans.status().message()}});
  }
  return PlanCache();
}

// Ends the process: a lost device stays lost until a new one starts. What was in flight has
// its answer by now, or gets it at once; a moment is left to send them.
[[noreturn]] void EndWithLostDevice(Drain drain, const Router& router) {
  constexpr int kAnswerTimeoutMs = 300;
  constexpr int kSendTimeoutMs = 300;
  drain.Start();
  router.WaitUntilIdle(kAnswerTimeoutMs);
  drain.AwaitSent(kSendTimeoutMs);
  _exit(kExitDeviceLost);
}

}  // namespace

int Serve(const config::ServerConfig& config) {
  const Signals signals;
  SetLogThreshold(LogThreshold(config.log().level()));
  if (config.lifecycle().core_dumps() == "off" ||
      (config.lifecycle().core_dumps() == "auto" && HoldsSecrets(config))) {
    ForbidCoreDumps();
  }
  constexpr std::chrono::seconds kPolicyPeriod(1);
  const absl::StatusOr<std::unique_ptr<PolicyFile>> policy =
      PolicyFile::Open(config.auth().policy_file(), kPolicyPeriod);
  if (!policy.ok()) {
    Log(Severity::kError, "cannot_start", {{"error", policy.status().message()}});
    return kExitCannotStart;
  }
  const SteadyClock clock;
  SlowLog slow(SlowLogOptions(config.log()));
  Statistics statistics(&slow);
  const std::string& plan_cache_file = config.tuning().plan_cache_file();
  PlanCache plans = LoadPlans(plan_cache_file);
  plans.set_shipped(&ShippedPlans());
  const absl::StatusOr<std::unique_ptr<Devices>> devices =
      Devices::Make(config, &clock, &plans, [](const absl::Status& status) {
        Log(Severity::kError, "device_lost", {{"error", status.message()}});
        Signals::Raise(Signals::kDeviceLost);
      });
  if (!devices.ok()) {
    Log(Severity::kError, "cannot_start",
        {{"device", config.device()}, {"error", devices.status().message()}});
    return kExitCannotStart;
  }
  Router& router = (*devices)->router();
  const std::size_t descriptors = RaiseDescriptorLimit();
  const GrpcServerOptions rpc = RpcOptions(config, descriptors);
  if (rpc.connections.all < WantedConnections(config.limits())) {
    Log(Severity::kWarning, "fewer_connections",
        {{"connections", rpc.connections.all}, {"file_descriptors", descriptors}});
  }
  RequestLimits limits;
  limits.request_bytes = (*devices)->memory_bytes();
  limits.result_bytes = rpc.message_bytes;
  AuditLog audit(&clock);
  QuotaAccounts quotas(&clock, [&audit](const Tenant& tenant, const absl::Status& refusal) {
    audit.OverQuota(tenant, refusal);
  });
  OperandStore store(
      OperandOptions(config.operands(), (*devices)->memory_bytes(), DevicesOf(router), &quotas),
      router.devices().front().device, &clock, std::random_device()());
  constexpr std::chrono::seconds kLeasePeriod(1);
  RegionTable regions(SharedMemoryOptions(config.shared_memory(), &quotas), DevicesOf(router),
                      &clock, kLeasePeriod);
  Verifier verifier(VerificationOptionsOf(config.verification()));
  constexpr std::chrono::milliseconds kRoomPeriod(10);
  WaitingRoom room(WaitingBounds(config, rpc), &clock, kRoomPeriod);
  Admission admission(limits, &BuiltinRegistry(), &router, &statistics, &clock, &plans, &store,
                      &regions, &verifier, ClientPolicyOf(config, &room, &quotas));
  Tuner tuner({&BuiltinRegistry(), &router, &admission, &plans, plan_cache_file});

  ConnectionTable connections(rpc.connections, ProgressLimitOf(config.limits()), &clock, &quotas);
  CallWatch watch(WatchOptions(config.limits(), rpc), &clock, kWatchPeriod,
                  [&connections](const std::string& peer) {
                    if (connections.Close(EndpointOf(peer))) {
                      Log(Severity::kWarning, "connection_closed", {{"peer", peer}});
                    }
                  });
  const Authorizer authorizer(policy->get(), &audit, AuthorizerOptions(config, &connections));
  const Door door{&watch, &authorizer};
  GemmService gemm(&admission, &statistics, &clock, door, SessionOptions(config.limits()));
  OperandsService operands(&store, &router, door, limits,
                           static_cast<std::uint64_t>(config.limits().chunk_bytes()));
  RegionsService regions_service(&regions, door);
  AdminService::Sources sources;
  sources.registry = &BuiltinRegistry();
  sources.router = &router;
  sources.admission = &admission;
  sources.plans = &plans;
  sources.tuner = &tuner;
  sources.store = &store;
  sources.regions = &regions;
  sources.verifier = &verifier;
  sources.statistics = &statistics;
  sources.quotas = &quotas;
  sources.clock = &clock;
  sources.message_bytes = rpc.message_bytes;
  sources.calls_per_connection = static_cast<std::uint64_t>(rpc.streams_per_connection);
  sources.max_queued_jobs = static_cast<std::uint64_t>(config.scheduling().max_queued_requests()) *
                            router.devices().size();
  AdminService admin(sources, door);

  const auto server =
      GrpcServer::Start(rpc, {&gemm, &operands, &regions_service, &admin}, &connections, door);
  if (!server.ok()) {
    Log(Severity::kError, "cannot_start", {{"error", server.status().message()}});
    return kExitCannotStart;
  }
  std::unique_ptr<Observability> observability;
  if (!config.observe().listen().empty()) {
    Observability::Parts parts;
    parts.clock = &clock;
    parts.policy = policy->get();
    parts.audit = &audit;
    parts.slow = &slow;
    parts.gpus = (*devices)->gpus();
    parts.metrics.router = &router;
    parts.metrics.statistics = &statistics;
    parts.metrics.store = &store;
    parts.metrics.regions = &regions;
    parts.metrics.verifier = &verifier;
    parts.metrics.room = &room;
    parts.metrics.connections = &connections;
    auto started = Observability::Start(ObserveOptions(config), std::move(parts));
    if (!started.ok()) {
      Log(Severity::kError, "cannot_start", {{"error", started.status().message()}});
      return kExitCannotStart;
    }
    observability = *std::move(started);
    Log(Severity::kInfo, "observing",
        {{"address", BoundAddress(config.observe().listen(), observability->port())}});
  }
  for (const ServedDevice& each : router.devices()) {
    const DeviceTraits& traits = each.device->traits();
    Log(Severity::kInfo, "device",
        {{"device", traits.name},
         {"model", traits.model},
         {"compute_units", traits.compute_units},
         {"f32_gflops", traits.f32_gflops},
         {"memory_bytes", each.device->memory().usage().limit_bytes}});
  }
  if (config.tls().certificate_file().empty() && !IsLocalAddress(config.listen())) {
    Log(Severity::kWarning, "insecure",
        {{"address", config.listen()},
         {"why", "others can connect, and everything is sent in plain text"}});
  }
  Log(Severity::kInfo, "serving",
      {{"version", kVersion}, {"address", BoundAddress(config.listen(), (*server)->port())}});

  constexpr int kForEver = -1;
  int signal = signals.Wait(kForEver);
  for (; signal == SIGHUP; signal = signals.Wait(kForEver)) {
    (*policy)->Reload();
    (*server)->ReloadTls().IgnoreError();  // which is logged
  }
  Drain drain({server->get(), &gemm, &operands, &router, &statistics, &clock});
  if (signal == Signals::kDeviceLost) EndWithLostDevice(drain, router);
  Log(Severity::kInfo, "draining",
      {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"},
       {"in_flight", statistics.Read().in_flight},
       {"uploads", operands.active_uploads()}});
  drain.Start();
  const bool drained =
      drain.AwaitWork(config.lifecycle().drain_timeout_ms(),
                      [&signals](int wait_ms) { return signals.AwaitStop(wait_ms); });
  if (!drained) {
    const Unfinished cut = drain.unfinished();
    Log(Severity::kWarning, "drain_cut_short",
        {{"received", statistics.Read().received},
         {"receiving", cut.receiving},
         {"running", cut.running},
         {"uploads", cut.uploads},
         {"calls", cut.calls},
         {"unacknowledged_bytes", cut.unacknowledged_bytes}});
    // A launched kernel cannot be stopped, so nothing orderly can be awaited: the
    // connections break, which their clients see as UNAVAILABLE.
    _exit(kExitDrainCutShort);
  }
  Log(Severity::kInfo, "drained", {{"received", statistics.Read().received}});
  if (!drain.AwaitSent(config.lifecycle().send_timeout_ms())) {
    const Unfinished cut = drain.unfinished();
    Log(Severity::kWarning, "answers_not_delivered",
        {{"calls", cut.calls}, {"unacknowledged_bytes", cut.unacknowledged_bytes}});
  }
  constexpr int kShutdownTimeoutMs = 1000;
  (*server)->Shutdown(kShutdownTimeoutMs);
  return kExitOk;
}

}  // namespace gemmd
