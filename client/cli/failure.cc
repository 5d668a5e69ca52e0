#include "client/cli/failure.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/details.h"

namespace gemmd::cli {

absl::string_view ExitCodesHelp() {
  return R"(Exit codes:
  0  success
  1  an internal error, here or in the server: a bug
  2  the command line is wrong
  3  an input or output file is unusable
  4  the server refused the request as wrong (INVALID_ARGUMENT, FAILED_PRECONDITION,
     NOT_FOUND, UNIMPLEMENTED, OUT_OF_RANGE)
  5  the server is unreachable or draining (UNAVAILABLE)
  6  the server is full, or the deadline passed (RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED)
  7  not allowed (UNAUTHENTICATED, PERMISSION_DENIED)
  8  gemm bench: an objective is not met (--slo, --find-knee, --fail-on); gemm bench diff:
     something is worse
  9  gemm bench: too many requests failed: more than --fail-on allows, or 10 % without it, or
     half of them whatever is allowed
  130  interrupted by Ctrl-C
)";
}

ExitCode ExitCodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kRefused;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kUnavailable;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kBusy;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return ExitCode::kForbidden;
    default:
      return ExitCode::kInternal;
  }
}

Failure UsageFailure(absl::string_view why) {
  return Failure{ExitCode::kUsage, "usage", std::string(why), std::nullopt};
}

Failure FileFailure(const absl::Status& status) {
  return Failure{ExitCode::kFile, "", std::string(status.message()), std::nullopt};
}

Failure ServerFailure(absl::string_view server, const absl::Status& status) {
  const std::string one = client::ServerOf(status);
  return Failure{ExitCodeOf(status.code()), one.empty() ? std::string(server) : one,
                 std::string(status.message()), status.code()};
}

std::string ToLine(const Failure& failure) {
  std::string line = "gemm";
  if (!failure.what.empty()) absl::StrAppend(&line, ": ", failure.what);
  if (failure.code) absl::StrAppend(&line, ": ", absl::StatusCodeToString(*failure.code));
  absl::StrAppend(&line, ": ", failure.why);
  absl::StripTrailingAsciiWhitespace(&line);
  return absl::StrReplaceAll(line, {{"\r", " "}, {"\n", " "}});
}

nlohmann::ordered_json ToJson(const Failure& failure) {
  nlohmann::ordered_json error = {{"exit_code", static_cast<int>(failure.exit_code)},
                                  {"what", failure.what},
                                  {"why", failure.why}};
  if (failure.code) error["code"] = absl::StatusCodeToString(*failure.code);
  return {{"error", std::move(error)}};
}

}  // namespace gemmd::cli
