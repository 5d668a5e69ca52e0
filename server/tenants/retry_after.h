// The time after which a refused client should come back: carried on a status, sent by server/rpc
// as gRPC's retry pushback.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace gemmd {

// REQUIRES: !status.ok(), milliseconds >= 0.
absl::Status WithRetryAfter(absl::Status status, std::int64_t milliseconds);

std::optional<std::int64_t> RetryAfterMs(const absl::Status& status);

}  // namespace gemmd
