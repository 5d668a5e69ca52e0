// Decides whether a failed call is retried, and after how long: values, no clocks, no gRPC.
#pragma once

#include <optional>

#include "absl/random/bit_gen_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::client {

struct RetryPolicy {
  int max_attempts = 4;  // the first included; 1 never retries
  absl::Duration initial_backoff = absl::Milliseconds(50);
  double multiplier = 2;  // backoff of attempt n: initial * multiplier^(n-1), at most max_backoff
  absl::Duration max_backoff = absl::Seconds(2);
  double jitter = 0.2;  // a backoff is drawn from [1 - jitter, 1 + jitter] times itself
  // A server may ask for more patience than a caller without a deadline should have: a
  // longer pushback is not waited for.
  absl::Duration max_pushback = absl::Minutes(1);
};

// The server's advice on retries, from its trailing metadata.
struct Pushback {
  enum class Kind {
    kAbsent,
    kDelay,      // try again after `delay`
    kForbidden,  // negative or malformed: do not try again
  };
  Kind kind = Kind::kAbsent;
  absl::Duration delay;
};

inline constexpr absl::string_view kPushbackKey = "grpc-retry-pushback-ms";

// The value under kPushbackKey: decimal milliseconds, at most 2^31 - 1.
Pushback ParsePushback(std::optional<absl::string_view> value);

struct FailedAttempt {
  int attempts = 1;  // made so far, this one included
  absl::StatusCode code = absl::StatusCode::kUnknown;
  Pushback pushback;
  absl::Time now;
  absl::Time deadline = absl::InfiniteFuture();
};

// Returns the time to wait before the next attempt; nothing where there must be none:
//   - the code is neither UNAVAILABLE nor RESOURCE_EXHAUSTED;
//   - RESOURCE_EXHAUSTED without a pushback, which is no transient refusal (gRPC
//     answers a message over the limit so);
//   - the server forbade it, or asked for more than max_pushback;
//   - the attempts are used up, or the wait would reach the deadline.
// A pushback is kept exactly; otherwise the backoff is exponential with jitter drawn
// from `generator`.
std::optional<absl::Duration> RetryDelay(const RetryPolicy& policy, const FailedAttempt& failed,
                                         absl::BitGenRef generator);

}  // namespace gemmd::client
