#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

constexpr int kLinesPerSecond = 10;

// How many lines are written in which second.
struct Budget {
  std::mutex mutex;
  std::int64_t second = 0;     // guarded by mutex
  int lines = 0;               // guarded by mutex; of that second
  std::uint64_t left_out = 0;  // guarded by mutex; since the last line
};

void Write(gpr_log_func_args* line) {
  // gRPC's threads may write until the process ends.
  static auto* const budget = new Budget;
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                                  std::chrono::steady_clock::now().time_since_epoch())
                                  .count();
  std::uint64_t left_out = 0;
  {
    const std::lock_guard<std::mutex> lock(budget->mutex);
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
