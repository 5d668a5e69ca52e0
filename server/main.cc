// gemmd: the process. A map of the server, in the order of a request's way:
//
//   net/           connections taken         acceptor.h, within connection_table.h's limits
//   auth/          who calls, what they may      policy.h states who is believed
//   rpc/           bytes to calls and back       matmul_reactor.h is one request's life
//   transfer/      streamed requests             matmul_session.h states the life of one
//   admission/     yes or no, and why            admission.h states the order of checks
//   scheduling/    who waits, who is next        scheduler.h states a job's states
//   cost/          what a launch will take       cost_model.h learns from every launch
//   verification/  products checked afterwards   verifier.h takes a share of all
//   regions/       memory shared with clients    region_table.h states who may use which
//   store/         matrices that stay            operand_store.h states an operand's states
//   preload/       files of weights at the start  preload.h
//   device/        memory, threads, launches     device.h is the seam, cpu_device.h the CPU
//   holdings/      what each client holds        ledger.h counts it, within limits
//   tenants/       what each client may take     quota.h has its limits
//   ../kernels/    what multiplies               gemm.h is their public header
//   observe/       receipts, statistics, logs, the clock
//   trace/         when requests' stages ran    trace_ring.h remembers, otlp_exporter.h sends
//   observe_http/  pages for those who watch     pages.h lists them, server_metrics.h collects
//   options/       config.proto is every option
//   settings/      the layers' options, made of those; settings.h, scheduling_options.h
//   lifecycle.h    start, serve, drain, end
//   server.h       all of these, in the order in which they are built
//   check.h        whether a server would start, for --check
//   host_limits.h  what the machine or container leaves to the process
//   process.h      exit codes, and what must not end the process
#include <unistd.h>

#include <cstdio>
#include <string>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "base/process/standard_files.h"
#include "server/check.h"
#include "server/lifecycle.h"
#include "server/options/options.h"
#include "server/process.h"

namespace {

// Returns false where standard output does not take all of it.
bool Print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  gemmd::OpenStandardFiles();
  gemmd::GuardProcess();
  // Debian's Abseil has deadlock detection on, which gRPC would pay for at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const auto parse = [argc, argv] { return gemmd::ParseCommandLine(argc, argv); };
  const absl::StatusOr<gemmd::CommandLine> command = parse();
  if (!command.ok()) {
    std::fprintf(stderr, "gemmd: %s\n", std::string(command.status().message()).c_str());
    return gemmd::kExitUsage;
  }
  if (const auto* text = std::get_if<std::string>(&*command)) {
    if (Print(*text)) return gemmd::kExitOk;
    std::perror("gemmd: standard output cannot be written");
    return gemmd::kExitCannotStart;
  }
  if (const auto* checked = std::get_if<gemmd::ToCheck>(&*command)) {
    return gemmd::CheckConfig(checked->config);
  }
  return gemmd::Serve(std::get<gemmd::config::ServerConfig>(*command), parse);
}
