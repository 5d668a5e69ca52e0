#include "server/tenants/retry_after.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

constexpr char kPayloadUrl[] = "gemmd/retry-after-ms";

}  // namespace

std::int64_t LeastRetryMs(WaitsFor what) {
  switch (what) {
    case WaitsFor::kRequests:
      return 20;
    case WaitsFor::kCalls:
      return 100;
    case WaitsFor::kClients:
    case WaitsFor::kLeases:
      return 1000;
  }
  return 1000;
}

absl::Status WithRetryAfter(absl::Status status, WaitsFor what, std::int64_t milliseconds) {
  milliseconds = std::max(milliseconds, LeastRetryMs(what));
  status.SetPayload(kPayloadUrl, absl::Cord(absl::StrCat(milliseconds)));
  return status;
}

std::optional<std::int64_t> RetryAfterMs(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  std::int64_t milliseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return milliseconds;
}

}  // namespace gemmd
