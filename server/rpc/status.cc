#include "server/rpc/status.h"

#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/admission/retry_after.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

bool IsBug(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

std::string NewIncidentId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace

absl::Status ToPublic(const absl::Status& status) {
  if (!IsBug(status.code())) return status;
  const std::string incident = NewIncidentId();
  Log(Severity::kError, "internal_error", {{"incident", incident}, {"error", status.ToString()}});
  return absl::InternalError(
      absl::StrCat("internal error; the server's log has incident ", incident));
}

grpc::Status ToGrpcStatus(const absl::Status& status, grpc::ServerContextBase* context) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status told = ToPublic(status);
  if (const std::optional<std::int64_t> retry = RetryAfterMs(told)) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", absl::StrCat(*retry));
  }
  // The code spaces are the same numbers: google.rpc.Code.
  return {static_cast<grpc::StatusCode>(told.code()), std::string(told.message())};
}

}  // namespace gemmd
