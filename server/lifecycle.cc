#include "server/lifecycle.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/admission/admission.h"
#include "server/device/cpu_device.h"
#include "server/device/emulated_device.h"
#include "server/observe/log.h"
#include "server/observe/statistics.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/gemm_service.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/operands_service.h"
#include "server/scheduling/scheduler.h"
#include "version.h"

namespace gemmd {
namespace {

Severity LogThreshold(const std::string& level) {
  if (level == "debug") return Severity::kDebug;
  if (level == "warning") return Severity::kWarning;
  if (level == "error") return Severity::kError;
  return Severity::kInfo;
}

CpuDevice::Options CpuOptions(const config::Cpu& config) {
  CpuDevice::Options options;
  options.threads = config.threads() != 0
                        ? static_cast<int>(config.threads())
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto machine_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  options.memory_bytes = config.memory_bytes() != 0
                             ? static_cast<std::uint64_t>(config.memory_bytes())
                             : machine_bytes / 2;
  return options;
}

// REQUIRES: config.device() is not "cuda".
std::unique_ptr<Device> MakeDevice(const config::ServerConfig& config, const Clock* clock) {
  const CpuDevice::Options options = CpuOptions(config.cpu());
  if (config.device() != "emulated") return std::make_unique<CpuDevice>(options, clock);
  Log(Severity::kWarning, "emulated_device",
      {{"note",
        "GPU kernels run on the CPU with every access checked: thousands of times "
        "slower than a GPU, for tests and for writing kernels"}});
  return std::make_unique<EmulatedDevice>(options.memory_bytes, clock);
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

// SIGTERM and SIGINT as values, in the order they came: the handler writes each into a
// pipe. (Blocking them for sigwait() would need every thread to do so, and OpenBLAS
// starts threads before main().)
class StopSignals {
 public:
  StopSignals() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();  // the process has no files left
    read_end_ = ends[0];
    write_end = ends[1];
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      const auto byte = static_cast<char>(signal);
      static_cast<void>(!write(write_end, &byte, 1));
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
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

// Whether everything admitted finished; false if a signal or the timeout came first.
bool Drain(GrpcServer* server, Scheduler* scheduler, const StopSignals& signals, const Clock& clock,
           std::int64_t timeout_ms) {
  constexpr int kPollMs = 20;
  const TimeNs end = clock.Now() + timeout_ms * 1000000;
  server->SetServing(false);
  scheduler->StartDraining();
  while (!scheduler->WaitUntilIdle(kPollMs)) {
    if (signals.Wait(0) != 0 || clock.Now() >= end) return false;
  }
  return true;
}

}  // namespace

int Serve(const config::ServerConfig& config) {
  const StopSignals signals;
  SetLogThreshold(LogThreshold(config.log().level()));
  if (config.device() == "cuda") {
    Log(Severity::kError, "cannot_start",
        {{"error", "--device is \"cuda\", and this build has no CUDA device; use cpu or auto"}});
    return kExitCannotStart;
  }

  const SteadyClock clock;
  Statistics statistics;
  const std::unique_ptr<Device> device = MakeDevice(config, &clock);
  SchedulerOptions scheduling;
  scheduling.max_queued_jobs = static_cast<std::size_t>(config.scheduling().max_queued_requests());
  Scheduler scheduler(device.get(), &clock, scheduling);
  const GrpcServerOptions rpc = RpcOptions(config);
  RequestLimits limits;
  limits.request_bytes = device->memory().usage().limit_bytes;
  limits.result_bytes = rpc.message_bytes;
  Admission admission(limits, &BuiltinRegistry(), device.get(), &scheduler, &statistics, &clock);

  GemmService gemm(&admission, &statistics, &clock);
  OperandsService operands;
  AdminService::Sources sources;
  sources.registry = &BuiltinRegistry();
  sources.device = device.get();
  sources.scheduler = &scheduler;
  sources.admission = &admission;
  sources.statistics = &statistics;
  sources.clock = &clock;
  sources.message_bytes = rpc.message_bytes;
  sources.max_queued_jobs = scheduling.max_queued_jobs;
  AdminService admin(sources);

  const auto server = GrpcServer::Start(rpc, {&gemm, &operands, &admin});
  if (!server.ok()) {
    Log(Severity::kError, "cannot_start", {{"error", server.status().message()}});
    return kExitCannotStart;
  }
  const std::size_t colon = config.listen().rfind(':');
  Log(Severity::kInfo, "serving",
      {{"version", kVersion},
       {"address", absl::StrCat(config.listen().substr(0, colon), ":", (*server)->port())},
       {"device", device->traits().name},
       {"model", device->traits().model},
       {"threads", device->traits().compute_units},
       {"f32_gflops", device->traits().f32_gflops},
       {"memory_bytes", device->memory().usage().limit_bytes}});

  constexpr int kForEver = -1;
  const int signal = signals.Wait(kForEver);
  Log(Severity::kInfo, "draining",
      {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"},
       {"in_flight", statistics.Read().in_flight}});
  const bool drained =
      Drain(server->get(), &scheduler, signals, clock, config.lifecycle().drain_timeout_ms());
  Log(drained ? Severity::kInfo : Severity::kWarning, drained ? "drained" : "drain_cut_short",
      {{"received", statistics.Read().received}, {"in_flight", statistics.Read().in_flight}});
  // A launched kernel cannot be stopped, so nothing orderly can be awaited: the
  // connections break, which their clients see as UNAVAILABLE.
  if (!drained) _exit(kExitDrainCutShort);
  // Answers already computed are still being sent.
  constexpr int kSendTimeoutMs = 5000;
  (*server)->Shutdown(kSendTimeoutMs);
  return kExitOk;
}

}  // namespace gemmd
