#include "server/lifecycle.h"

#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "server/drain.h"
#include "server/observe/log.h"
#include "server/process.h"
#include "server/server.h"
#include "server/signals.h"

namespace gemmd {
namespace {

Severity LogThreshold(const std::string& level) {
  if (level == "debug") return Severity::kDebug;
  if (level == "warning") return Severity::kWarning;
  if (level == "error") return Severity::kError;
  return Severity::kInfo;
}

bool HoldsSecrets(const config::ServerConfig& config) {
  return !config.tls().key_file().empty() || !config.auth().policy_file().empty();
}

bool MayDumpCore(const config::ServerConfig& config) {
  const std::string& which = config.lifecycle().core_dumps();
  return which != "off" && (which != "auto" || !HoldsSecrets(config));
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

}  // namespace

int Serve(const config::ServerConfig& config) {
  const Signals signals;
  SetLogThreshold(LogThreshold(config.log().level()));
  if (!MayDumpCore(config)) ForbidCoreDumps();
  const std::unique_ptr<Server> server = Server::Start(config, [](const absl::Status& status) {
    Log(Severity::kError, "device_lost", {{"error", status.message()}});
    Signals::Raise(Signals::kDeviceLost);
  });
  if (server == nullptr) return kExitCannotStart;

  constexpr int kForEver = -1;
  int signal = signals.Wait(kForEver);
  for (; signal == SIGHUP; signal = signals.Wait(kForEver)) server->Reload();
  if (signal == Signals::kDeviceLost) EndWithLostDevice(server.get());
  Log(Severity::kInfo, "draining",
      {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"},
       {"in_flight", server->totals().in_flight},
       {"uploads", server->NewDrain().unfinished().uploads}});
  FinishWork(config.lifecycle(), server.get(), signals);
  return kExitOk;
}

}  // namespace gemmd
