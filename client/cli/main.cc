// gemm, the command line of gemmd. app.cc reads the options and knows the subcommands, one
// file each: matmul_command.cc, info_command.cc, stats_command.cc, kernels_command.cc,
// bench_command.cc, completion_command.cc. failure.h has the exit codes, connection.h the global
// options.
#include "absl/synchronization/mutex.h"
#include "client/cli/app.h"

int main(int argc, char** argv) {
  // Debian's Abseil searches for deadlocks at every nested lock, and gRPC has many.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return gemmd::cli::Run(argc, argv);
}
