#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

constexpr int kLinesPerSecond = 10;

// Counts the lines written in one second.
struct Budget {
  Mutex mutex;
  std::int64_t second ABSL_GUARDED_BY(mutex) = 0;
  int lines ABSL_GUARDED_BY(mutex) = 0;               // of that second
  std::uint64_t left_out ABSL_GUARDED_BY(mutex) = 0;  // since the last line
};

void Write(gpr_log_func_args* line) {
  // gRPC's threads may write until the process ends.
  static auto* const budget = new Budget;
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                                  std::chrono::steady_clock::now().time_since_epoch())
                                  .count();
  std::uint64_t left_out = 0;
  {
    const MutexLock lock(budget->mutex);
    if (budget->second != second) {
      budget->second = second;
      budget->lines = 0;
    }
    if (budget->lines == kLinesPerSecond) {
      ++budget->left_out;
      return;
    }
    ++budget->lines;
    left_out = std::exchange(budget->left_out, 0);
  }
  Log(Severity::kWarning, "grpc",
      {{"message", line->message},
       {"source", absl::StrCat(line->file, ":", line->line)},
       {"left_out", left_out}});
}

}  // namespace

void RedirectGrpcLog() { gpr_set_log_function(Write); }

}  // namespace gemmd
