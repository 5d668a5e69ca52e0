#include "server/rpc/codec/status.h"

#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/status.pb.h"
#include "server/observe/log.h"
#include "server/scheduling/draining.h"
#include "server/store/missing.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

bool IsBug(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown;
}

std::string NewIncidentId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

// Empty where there is nothing to tell.
std::string DetailsOf(const absl::Status& status) {
  v1::StatusDetails details;
  const v1::MissingOperands missing = EncodeMissing(status);
  if (missing.ByteSizeLong() != 0) details.add_details()->PackFrom(missing);
  if (IsDraining(status)) details.add_details()->PackFrom(v1::Draining());
  if (details.details().empty()) return {};
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  return details.SerializeAsString();
}

}  // namespace

v1::MissingOperands EncodeMissing(const absl::Status& status) {
  const MissingOperands missing = MissingOf(status);
  v1::MissingOperands wire;
  for (const std::string& digest : missing.digests) wire.add_digests(digest);
  for (const std::string& handle : missing.handles) wire.add_handles(handle);
  for (const std::string& name : missing.names) wire.add_names(name);
  return wire;
}

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
  return {static_cast<grpc::StatusCode>(told.code()), std::string(told.message()), DetailsOf(told)};
}

}  // namespace gemmd
