#include "server/scheduling/draining.h"

#include <utility>

#include "absl/strings/cord.h"
#include "server/observe/refusal.h"

namespace gemmd {
namespace {

constexpr char kPayloadUrl[] = "gemmd/draining";

}  // namespace

absl::Status DrainingError() {
  absl::Status status = absl::UnavailableError("the server is draining: use another replica");
  status.SetPayload(kPayloadUrl, absl::Cord());
  return WithCause(std::move(status), RefusalCause::kDraining);
}

bool IsDraining(const absl::Status& status) { return status.GetPayload(kPayloadUrl).has_value(); }

}  // namespace gemmd
