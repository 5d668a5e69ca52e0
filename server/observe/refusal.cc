#include "server/observe/refusal.h"

#include <string>

#include "absl/strings/cord.h"

namespace gemmd {
namespace {

constexpr char kPayloadUrl[] = "gemmd/refusal-cause";

constexpr absl::string_view kNames[] = {
    "invalid",  "not_found",    "no_kernel", "not_built", "not_allowed", "quota",
    "memory",   "memory_share", "waiting",   "queue",     "queue_share", "session",
    "deadline", "stalled",      "draining",  "cancelled", "device",      "other"};
static_assert(sizeof kNames / sizeof *kNames == kRefusalCauses);

}  // namespace

absl::string_view Name(RefusalCause cause) { return kNames[static_cast<std::size_t>(cause)]; }

absl::Status WithCause(absl::Status status, RefusalCause cause) {
  if (!status.GetPayload(kPayloadUrl).has_value()) {
    status.SetPayload(kPayloadUrl, absl::Cord(std::string(1, static_cast<char>(cause))));
  }
  return status;
}

RefusalCause CauseOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return CauseOf(status.code());
  return static_cast<RefusalCause>(std::string(*payload)[0]);
}

RefusalCause CauseOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return RefusalCause::kInvalid;
    case absl::StatusCode::kNotFound:
      return RefusalCause::kNotFound;
    case absl::StatusCode::kFailedPrecondition:
      return RefusalCause::kNoKernel;
    case absl::StatusCode::kUnimplemented:
      return RefusalCause::kNotBuilt;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return RefusalCause::kNotAllowed;
    case absl::StatusCode::kDeadlineExceeded:
      return RefusalCause::kDeadline;
    case absl::StatusCode::kCancelled:
      return RefusalCause::kCancelled;
    case absl::StatusCode::kUnavailable:
      return RefusalCause::kDevice;
    default:
      return RefusalCause::kOther;
  }
}

}  // namespace gemmd
