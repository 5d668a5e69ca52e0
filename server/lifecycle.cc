#include "server/lifecycle.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_join.h"
#include "server/drain.h"
#include "server/host_limits.h"
#include "server/observe/log.h"
#include "server/options/config_text.h"
#include "server/options/reload.h"
#include "server/process.h"
#include "server/server.h"
#include "server/service_manager.h"
#include "server/signals.h"

namespace gemmd {
namespace {

Severity LogThreshold(const std::string& level) {
  if (level == "debug") return Severity::kDebug;
  if (level == "warning") return Severity::kWarning;
  if (level == "error") return Severity::kError;
  return Severity::kInfo;
}

const char* NameOf(int signal) {
  if (signal == Signals::kDrain) return "Admin.Drain";
  return signal == SIGTERM ? "SIGTERM" : "SIGINT";
}

// Signals that come while the server starts.
class SignalsAtStart {
 public:
  explicit SignalsAtStart(const Signals* signals) : signals_(signals) {}

  // Thread-safe.
  bool IsStopped() {
    const int signal = signals_->Wait(0);
    if (signal == SIGHUP) wants_reload_ = true;
    if (signal != 0 && signal != SIGHUP) stop_ = signal;
    return stop() != 0;
  }
  int stop() const { return stop_; }  // the signal that ends the process; 0: none
  // The files were read before the SIGHUP, perhaps.
  void RaiseReload() const {
    if (wants_reload_) Signals::Raise(SIGHUP);
  }

 private:
  const Signals* const signals_;
  std::atomic<int> stop_{0};
  std::atomic<bool> wants_reload_{false};
};

bool HoldsSecrets(const config::ServerConfig& config) {
  return !config.tls().key_file().empty() || !config.auth().policy_file().empty();
}

bool MayDumpCore(const config::ServerConfig& config) {
  const std::string& which = config.lifecycle().core_dumps();
  return which != "off" && (which != "auto" || !HoldsSecrets(config));
}

void LogOptions(Severity severity, const char* event, const std::vector<std::string>& flags) {
  if (!flags.empty()) Log(severity, event, {{"options", absl::StrJoin(flags, ", ")}});
}

// Takes over what reloads, into the options that are in force. Everything else was built into the
// layers when they were made. Options of which one is wrong change nothing.
void ReloadOptions(const ReadOptions& read_options, config::ServerConfig* config, Server* server) {
  const absl::StatusOr<CommandLine> command = read_options();
  const auto* read = command.ok() ? std::get_if<config::ServerConfig>(&*command) : nullptr;
  if (read == nullptr) {
    Log(Severity::kError, "options_unchanged", {{"error", command.status().message()}});
    return;
  }
  const config::ServerConfig before = *config;
  TakeReloading(*read, config);
  SetLogThreshold(LogThreshold(config->log().level()));
  server->SetLimits(*config);
  LogOptions(Severity::kInfo, "options_reloaded", DifferingFlags(before, *config));
  LogOptions(Severity::kWarning, "options_need_restart", DifferingFlags(*config, *read));
}

// Ends the process: a lost device stays lost until a new one starts. Requests in flight have their
// answers by now, or get them at once; a moment is left to send them.
[[noreturn]] void EndWithLostDevice(Server* server) {
  constexpr int kAnswerTimeoutMs = 300;
  constexpr int kSendTimeoutMs = 300;
  Drain drain = server->NewDrain();
  drain.Start();
  server->router().WaitUntilIdle(kAnswerTimeoutMs);
  drain.AwaitSent(kSendTimeoutMs);
  _exit(kExitDeviceLost);
}

// Finishes what the server was let in with, or ends the process where that takes too long.
void FinishWork(const config::Lifecycle& config, Server* server, const Signals& signals) {
  Drain drain = server->NewDrain();
  drain.Start();
  const bool drained = drain.AwaitWork(
      config.drain_timeout_ms(), [&signals](int wait_ms) { return signals.AwaitStop(wait_ms); });
  if (!drained) {
    const Unfinished cut = drain.unfinished();
    Log(Severity::kWarning, "drain_cut_short",
        {{"received", server->totals().received},
         {"receiving", cut.receiving},
         {"running", cut.running},
         {"uploads", cut.uploads},
         {"calls", cut.calls},
         {"unacknowledged_bytes", cut.unacknowledged_bytes}});
    // A launched kernel cannot be stopped, so nothing orderly can be awaited: the
    // connections break, which their clients see as UNAVAILABLE.
    _exit(kExitDrainCutShort);
  }
  Log(Severity::kInfo, "drained", {{"received", server->totals().received}});
  if (!drain.AwaitSent(config.send_timeout_ms())) {
    const Unfinished cut = drain.unfinished();
    Log(Severity::kWarning, "answers_not_delivered",
        {{"calls", cut.calls}, {"unacknowledged_bytes", cut.unacknowledged_bytes}});
  }
  server->Shutdown();
}

HostNeeds NeedsOf(const config::ServerConfig& config) {
  HostNeeds needs;
  needs.may_use_gpus = config.device() == "cuda" || config.device() == "auto";
  if (!config.shared_memory().name_prefix().empty()) {
    needs.region_bytes = static_cast<std::uint64_t>(config.shared_memory().max_bytes());
  }
  return needs;
}

}  // namespace

int Serve(const config::ServerConfig& config, const ReadOptions& read_options) {
  SetLogThreshold(LogThreshold(config.log().level()));
  if (const absl::Status status = CheckDescriptors(); !status.ok()) {
    Log(Severity::kError, "cannot_start", {{"error", status.message()}});
    return kExitCannotStart;
  }
  const Signals signals;
  if (!MayDumpCore(config)) ForbidCoreDumps();
  LogHostLimits();
  LogHostLacks(NeedsOf(config));
  SignalsAtStart at_start(&signals);
  const std::unique_ptr<Server> server = Server::Start(
      config,
      [](const absl::Status& status) {
        Log(Severity::kError, "device_lost", {{"error", status.message()}});
        Signals::Raise(Signals::kDeviceLost);
      },
      [] { Signals::Raise(Signals::kDrain); }, [&at_start] { return at_start.IsStopped(); });
  if (at_start.stop() != 0) {
    return at_start.stop() == Signals::kDeviceLost ? kExitDeviceLost : kExitOk;
  }
  if (server == nullptr) return kExitCannotStart;
  at_start.RaiseReload();
  TellServiceManager("READY=1");

  config::ServerConfig in_force = config;
  constexpr int kForEver = -1;
  int signal = signals.Wait(kForEver);
  for (; signal == SIGHUP; signal = signals.Wait(kForEver)) {
    TellServiceManager(ReloadingState());
    ReloadOptions(read_options, &in_force, server.get());
    server->ReloadFiles();
    TellServiceManager("READY=1");
  }
  TellServiceManager("STOPPING=1");
  if (signal == Signals::kDeviceLost) EndWithLostDevice(server.get());
  Log(Severity::kInfo, "draining",
      {{"signal", NameOf(signal)},
       {"in_flight", server->totals().in_flight},
       {"uploads", server->NewDrain().unfinished().uploads}});
  FinishWork(config.lifecycle(), server.get(), signals);
  return kExitOk;
}

}  // namespace gemmd
