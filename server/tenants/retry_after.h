// The time after which a refused client should come back: carried on a status, sent by server/rpc
// as gRPC's retry pushback.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace gemmd {

// Each refusal that ends by itself says for whom it has to wait, and so has a time below which
// nobody is told to come back: a client that obeys asks no more often than that.
enum class WaitsFor : std::uint8_t {
  kRequests,  // products in flight, whose end takes milliseconds
  kCalls,     // other calls
  kClients,   // others' clients, who send slowly, do not read, or have asked for long work
  kLeases,    // what stays until it is given back or its lease ends
};
std::int64_t LeastRetryMs(WaitsFor what);

// `milliseconds`: as far as it is known when there is room; the least of it counts where that is
// more. REQUIRES: !status.ok().
absl::Status WithRetryAfter(absl::Status status, WaitsFor what, std::int64_t milliseconds = 0);

std::optional<std::int64_t> RetryAfterMs(const absl::Status& status);

}  // namespace gemmd
