// gemm, the command line of gemmd. app.cc reads the options and knows the subcommands, one file of
// commands/ each; failure.h has the exit codes, connection.h the global options. bench/ is what
// `gemm bench` and `gemm estimate` do, views/ what the terminal shows, files/ matrices in files.
//
//   products    matmul_command.cc, estimate_command.cc, bench_command.cc
//   operands    quantize_command.cc, weights_command.cc, put_command.cc, get_command.cc,
//               ls_command.cc, name_command.cc, rm_command.cc
//   the server  info_command.cc, health_command.cc, drain_command.cc, stats_command.cc,
//               top_command.cc, kernels_command.cc, trace_command.cc, tune_command.cc
//   servers     servers_command.cc
//   the shell   completion_command.cc
#include <grpc/support/log.h>

#include <csignal>
#include <cstdlib>

#include "absl/synchronization/mutex.h"
#include "base/process/standard_files.h"
#include "client/cli/app.h"

int main(int argc, char** argv) {
  gemmd::OpenStandardFiles();
  // A file that may not be so long (RLIMIT_FSIZE) is an error that says so.
  std::signal(SIGXFSZ, SIG_IGN);
  // Debian's Abseil searches for deadlocks at every nested lock, and gRPC has many.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A failed call is told in one line of our own. gRPC's log, with its file names and handshakes,
  // is for who asks for it.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  return gemmd::cli::Run(argc, argv);
}
