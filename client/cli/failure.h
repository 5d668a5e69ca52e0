// The end of a command that failed: an exit code for scripts, a line for people.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace gemmd::cli {

// Part of the command line's contract: numbers never change meaning.
enum class ExitCode {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kFile = 3,
  kRefused = 4,
  kUnavailable = 5,
  kBusy = 6,
  kForbidden = 7,
  kObjectiveMissed = 8,  // as kTooManyFailed: of gemm bench and gemm bench diff
  kTooManyFailed = 9,
  kInterrupted = 130,  // as a shell has it: 128 and SIGINT
};

// The table of them, as every --help ends.
absl::string_view ExitCodesHelp();

ExitCode ExitCodeOf(absl::StatusCode code);

struct Failure {
  ExitCode exit_code = ExitCode::kInternal;
  std::string what;  // "usage", a path, a server's address
  std::string why;
  std::optional<absl::StatusCode> code;  // where a server's answer is the reason
  bool in_output = false;                // --json has been printed, this failure inside
};

// The result of a command: nothing is success.
using Outcome = std::optional<Failure>;

Failure UsageFailure(absl::string_view why);
// REQUIRES: the status's message begins with the path, as those of client/file.h do.
Failure FileFailure(const absl::Status& status);
// The status's own server goes before `server`, which may be several.
Failure ServerFailure(absl::string_view server, const absl::Status& status);

// "gemm: WHAT: WHY", in one line whatever the parts hold.
std::string ToLine(const Failure& failure);

// {"error": {"exit_code": 4, "what": ..., "why": ..., "code": "INVALID_ARGUMENT"}}
nlohmann::ordered_json ToJson(const Failure& failure);

}  // namespace gemmd::cli
