// The time after which a server wants to be asked again, as a detail of the error that ends a call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/retry.h"

namespace gemmd::client {

inline constexpr char kRetryAfterUrl[] = "gemmd/client/retry_after_ms";

// The status with the pushback's milliseconds, where there is one; -1 forbids another attempt.
inline absl::Status WithRetryAfter(absl::Status status, const Pushback& pushback) {
  if (pushback.kind == Pushback::Kind::kAbsent) return status;
  const bool is_forbidden = pushback.kind == Pushback::Kind::kForbidden;
  const std::int64_t milliseconds = is_forbidden ? -1 : absl::ToInt64Milliseconds(pushback.delay);
  status.SetPayload(kRetryAfterUrl, absl::Cord(absl::StrCat(milliseconds)));
  return status;
}

// Absent where the server did not say.
inline std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterUrl);
  std::int64_t milliseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) return std::nullopt;
  if (milliseconds < 0) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

}  // namespace gemmd::client
