#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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

// Returns how many lines were left out before this one; none: this one is, too.
std::optional<std::uint64_t> TakeTurn() {
  // gRPC's threads may write until the process ends.
  static auto* const budget = new Budget;
  const std::int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                                  std::chrono::steady_clock::now().time_since_epoch())
                                  .count();
  const MutexLock lock(budget->mutex);
  if (budget->second != second) {
    budget->second = second;
    budget->lines = 0;
  }
  if (budget->lines == kLinesPerSecond) {
    ++budget->left_out;
    return std::nullopt;
  }
  ++budget->lines;
  return std::exchange(budget->left_out, 0);
}

void Write(gpr_log_func_args* line) {
  std::optional<TransportEnd> end;
  if (line->severity != GPR_LOG_SEVERITY_ERROR) {
    end = ReadTransportEnd(line->message);
    if (!end.has_value()) return;
  }
  const std::optional<std::uint64_t> left_out = TakeTurn();
  if (!left_out.has_value()) return;
  if (end.has_value()) {
    Log(Severity::kWarning, "transport_ended",
        {{"peer", end->peer}, {"why", end->why}, {"left_out", *left_out}});
    return;
  }
  Log(Severity::kWarning, "grpc",
      {{"message", line->message},
       {"source", absl::StrCat(line->file, ":", line->line)},
       {"left_out", *left_out}});
}

}  // namespace

std::optional<TransportEnd> ReadTransportEnd(absl::string_view message) {
  constexpr absl::string_view kGoaway = ": Sending goaway err=";
  constexpr absl::string_view kSilent = ": Keepalive watchdog fired";
  if (const std::size_t at = message.find(kGoaway); at != absl::string_view::npos) {
    absl::string_view error = message.substr(at + kGoaway.size());
    error = error.substr(0, error.find(" {"));  // its file and line
    absl::ConsumePrefix(&error, "UNKNOWN:");
    return TransportEnd{message.substr(0, at), std::string(error)};
  }
  if (const std::size_t at = message.find(kSilent); at != absl::string_view::npos) {
    return TransportEnd{message.substr(0, at), "it did not answer a ping"};
  }
  return std::nullopt;
}

void RedirectGrpcLog() {
  gpr_set_log_function(Write);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
}

}  // namespace gemmd
