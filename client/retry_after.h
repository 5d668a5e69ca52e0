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

// The status with the pushback's delay, where it has one.
inline absl::Status WithRetryAfter(absl::Status status, const Pushback& pushback) {
  if (pushback.kind == Pushback::Kind::kDelay) {
    status.SetPayload(kRetryAfterUrl,
                      absl::Cord(absl::StrCat(absl::ToInt64Milliseconds(pushback.delay))));
  }
  return status;
}

// Absent where the server did not say.
inline std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryAfterUrl);
  std::int64_t milliseconds = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &milliseconds)) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

}  // namespace gemmd::client
