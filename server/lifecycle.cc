#include "server/lifecycle.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/admission/admission.h"
#include "server/admission/tuner.h"
#include "server/devices.h"
#include "server/observe/log.h"
#include "server/observe/statistics.h"
#include "server/regions/region_table.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/gemm_service.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/operands_service.h"
#include "server/rpc/regions_service.h"
#include "server/rpc/send_queues.h"
#include "server/store/operand_store.h"
#include "server/verification/verifier.h"
#include "version.h"

namespace gemmd {
namespace {

Severity LogThreshold(const std::string& level) {
  if (level == "debug") return Severity::kDebug;
  if (level == "warning") return Severity::kWarning;
  if (level == "error") return Severity::kError;
  return Severity::kInfo;
}

GrpcServerOptions RpcOptions(const config::ServerConfig& config) {
  GrpcServerOptions options;
  options.listen = config.listen();
  options.message_bytes = static_cast<std::uint64_t>(config.limits().message_bytes());
  options.memory_bytes = static_cast<std::uint64_t>(config.limits().receive_memory_bytes());
  options.streams_per_connection = static_cast<int>(config.limits().streams_per_connection());
  options.tls_certificate_file = config.tls().certificate_file();
  options.tls_key_file = config.tls().key_file();
  return options;
}

StoreOptions OperandOptions(const config::Operands& config, std::uint64_t device_bytes) {
  constexpr TimeNs kMillisecond = 1000000;
  StoreOptions options;
  options.limit_bytes = config.memory_bytes() != 0
                            ? static_cast<std::uint64_t>(config.memory_bytes())
                            : device_bytes / 2;
  options.tenant_bytes = config.tenant_bytes() != 0
                             ? static_cast<std::uint64_t>(config.tenant_bytes())
                             : options.limit_bytes;
  options.max_operands = static_cast<std::size_t>(config.max_operands());
  options.default_lease = config.default_lease_ms() * kMillisecond;
  options.max_lease = config.max_lease_ms() * kMillisecond;
  options.upload_lease = config.upload_lease_ms() * kMillisecond;
  return options;
}

MatmulSession::Options SessionOptions(const config::Limits& limits) {
  MatmulSession::Options options;
  options.max_requests = static_cast<std::size_t>(limits.requests_per_session());
  options.chunk_bytes = static_cast<std::uint64_t>(limits.chunk_bytes());
  options.small_result_bytes = std::min(options.small_result_bytes, options.chunk_bytes);
  options.stall_timeout = limits.stall_timeout_ms() * 1000000;
  return options;
}

RegionOptions SharedMemoryOptions(const config::SharedMemory& config) {
  constexpr TimeNs kMillisecond = 1000000;
  RegionOptions options;
  options.name_prefix = config.name_prefix();
  options.cuda_ipc = config.cuda_ipc() == "on";
  options.max_regions = static_cast<std::uint64_t>(config.max_regions());
  options.max_bytes = static_cast<std::uint64_t>(config.max_bytes());
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

std::vector<Device*> DevicesOf(const Router& router) {
  std::vector<Device*> devices;
  for (const ServedDevice& each : router.devices()) devices.push_back(each.device);
  return devices;
}

// What makes the server stop, as values in the order they came: SIGTERM, SIGINT and a
// device's loss. Each is written into a pipe. (Blocking the signals for sigwait() would need
// every thread to do so, and OpenBLAS starts threads before main().)
class StopSignals {
 public:
  static constexpr int kDeviceLost = 1;  // SIGHUP's number, which is never written

  StopSignals() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();  // the process has no files left
    read_end_ = ends[0];
    write_end = ends[1];
    struct sigaction action {};
    action.sa_handler = Raise;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
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

 private:
  static inline int write_end = -1;
  int read_end_ = -1;
};

// What clients name: the port is known once it was taken, and a socket of a path has none.
std::string BoundAddress(const std::string& listen, int port) {
  if (absl::StartsWith(listen, "unix")) return listen;
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

// What the file has; empty where there is none yet, or its plans are of another version.
absl::StatusOr<PlanCache> LoadPlans(const std::string& path) {
  if (path.empty()) return PlanCache();
  absl::StatusOr<PlanCache> plans = PlanCache::Load(path, PlanVersion());
  if (absl::IsFailedPrecondition(plans.status())) {
    Log(Severity::kWarning, "plans_outdated", {{"error", plans.status().message()}});
    return PlanCache();
  }
  if (absl::IsNotFound(plans.status())) return PlanCache();
  return plans;
}

// Whether everything admitted finished; false if a signal or the timeout came first.
bool Drain(GrpcServer* server, GemmService* gemm, const Router& router, const StopSignals& signals,
           const Clock& clock, std::int64_t timeout_ms) {
  constexpr int kPollMs = 20;
  const TimeNs end = clock.Now() + timeout_ms * 1000000;
  server->SetServing(false);
  router.StartDraining();
  gemm->StartDraining();
  while (!router.WaitUntilIdle(kPollMs)) {
    if (signals.Wait(0) != 0 || clock.Now() >= end) return false;
  }
  return true;
}

// Whether every answer has reached its client's machine; false if the timeout came first.
// gRPC's shutdown alone may close a connection over an answer that is still under way.
bool AwaitSent(const GemmService& gemm, const Clock& clock, std::int64_t timeout_ms) {
  constexpr std::chrono::milliseconds kPoll(5);
  const TimeNs end = clock.Now() + timeout_ms * 1000000;
  while (gemm.active_calls() != 0 || UnacknowledgedBytes() != 0) {
    if (clock.Now() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

// Ends the process: a lost device stays lost until a new one starts. What was in flight has
// its answer by now, or gets it at once; a moment is left to send them.
[[noreturn]] void EndWithLostDevice(GrpcServer* server, const GemmService& gemm,
                                    const Router& router, const Clock& clock) {
  constexpr int kAnswerTimeoutMs = 300;
  constexpr int kSendTimeoutMs = 300;
  server->SetServing(false);
  router.StartDraining();
  router.WaitUntilIdle(kAnswerTimeoutMs);
  AwaitSent(gemm, clock, kSendTimeoutMs);
  _exit(kExitDeviceLost);
}

}  // namespace

int Serve(const config::ServerConfig& config) {
  const StopSignals signals;
  SetLogThreshold(LogThreshold(config.log().level()));
  const SteadyClock clock;
  Statistics statistics;
  const std::string& plan_cache_file = config.tuning().plan_cache_file();
  absl::StatusOr<PlanCache> plans = LoadPlans(plan_cache_file);
  if (!plans.ok()) {
    Log(Severity::kError, "cannot_start",
        {{"error", absl::StrCat("tuning.plan_cache_file: ", plans.status().message())}});
    return kExitCannotStart;
  }
  plans->set_shipped(&ShippedPlans());
  const absl::StatusOr<std::unique_ptr<Devices>> devices =
      Devices::Make(config, &clock, &*plans, [](const absl::Status& status) {
        Log(Severity::kError, "device_lost", {{"error", status.message()}});
        StopSignals::Raise(StopSignals::kDeviceLost);
      });
  if (!devices.ok()) {
    Log(Severity::kError, "cannot_start",
        {{"device", config.device()}, {"error", devices.status().message()}});
    return kExitCannotStart;
  }
  const Router& router = (*devices)->router();
  const GrpcServerOptions rpc = RpcOptions(config);
  RequestLimits limits;
  limits.request_bytes = (*devices)->memory_bytes();
  limits.result_bytes = rpc.message_bytes;
  OperandStore store(OperandOptions(config.operands(), (*devices)->memory_bytes()),
                     router.devices().front().device, &clock, std::random_device()());
  constexpr std::chrono::seconds kLeasePeriod(1);
  RegionTable regions(SharedMemoryOptions(config.shared_memory()), DevicesOf(router), &clock,
                      kLeasePeriod);
  Verifier verifier(VerificationOptionsOf(config.verification()));
  Admission admission(limits, &BuiltinRegistry(), &router, &statistics, &clock, &*plans, &store,
                      &regions, &verifier);
  Tuner tuner({&BuiltinRegistry(), &router, &admission, &*plans, plan_cache_file});

  GemmService gemm(&admission, &statistics, &clock, SessionOptions(config.limits()));
  OperandsService operands(&store, &router, limits,
                           static_cast<std::uint64_t>(config.limits().chunk_bytes()));
  RegionsService regions_service(&regions);
  AdminService::Sources sources;
  sources.registry = &BuiltinRegistry();
  sources.router = &router;
  sources.admission = &admission;
  sources.plans = &*plans;
  sources.tuner = &tuner;
  sources.store = &store;
  sources.regions = &regions;
  sources.verifier = &verifier;
  sources.statistics = &statistics;
  sources.clock = &clock;
  sources.message_bytes = rpc.message_bytes;
  sources.max_queued_jobs = static_cast<std::uint64_t>(config.scheduling().max_queued_requests()) *
                            router.devices().size();
  AdminService admin(sources);

  const auto server = GrpcServer::Start(rpc, {&gemm, &operands, &regions_service, &admin});
  if (!server.ok()) {
    Log(Severity::kError, "cannot_start", {{"error", server.status().message()}});
    return kExitCannotStart;
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
  Log(Severity::kInfo, "serving",
      {{"version", kVersion}, {"address", BoundAddress(config.listen(), (*server)->port())}});

  constexpr int kForEver = -1;
  const int signal = signals.Wait(kForEver);
  if (signal == StopSignals::kDeviceLost) {
    EndWithLostDevice(server->get(), gemm, router, clock);
  }
  Log(Severity::kInfo, "draining",
      {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"},
       {"in_flight", statistics.Read().in_flight}});
  const bool drained =
      Drain(server->get(), &gemm, router, signals, clock, config.lifecycle().drain_timeout_ms());
  Log(drained ? Severity::kInfo : Severity::kWarning, drained ? "drained" : "drain_cut_short",
      {{"received", statistics.Read().received}, {"in_flight", statistics.Read().in_flight}});
  // A launched kernel cannot be stopped, so nothing orderly can be awaited: the
  // connections break, which their clients see as UNAVAILABLE.
  if (!drained) _exit(kExitDrainCutShort);
  if (!AwaitSent(gemm, clock, config.lifecycle().send_timeout_ms())) {
    Log(Severity::kWarning, "answers_not_delivered",
        {{"calls", gemm.active_calls()}, {"unacknowledged_bytes", UnacknowledgedBytes()}});
  }
  constexpr int kShutdownTimeoutMs = 1000;
  (*server)->Shutdown(kShutdownTimeoutMs);
  return kExitOk;
}

}  // namespace gemmd
