// Decides whether a failed call is retried, and after how long: values, no clocks, no gRPC.
#pragma once

#include <functional>
#include <optional>

#include "absl/random/bit_gen_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::client {

// A failed attempt that another one follows.
struct Retry {
  int attempts = 1;      // of its call so far, this one included
  absl::Status status;   // it ended so; IsUnreachable() (details.h) may be true
  absl::Duration delay;  // until the next one
};

struct RetryPolicy {
  // The first included; 1 never retries. With the backoffs below they take some 5 s, so that a
  // server may be restarted meanwhile.
  int max_attempts = 8;
  absl::Duration initial_backoff = absl::Milliseconds(50);
  double multiplier = 2;  // backoff of attempt n: initial * multiplier^(n-1), at most max_backoff
  absl::Duration max_backoff = absl::Seconds(2);
  double jitter = 0.2;  // a backoff is drawn from [1 - jitter, 1 + jitter] times itself
  // A server may ask for more patience than a caller without a deadline should have: a
  // longer pushback is not waited for.
  absl::Duration max_pushback = absl::Minutes(1);
  // Unless the server asked for it, no attempt begins later than this after the first one failed:
  // attempts that take long before they fail are few.
  absl::Duration patience = absl::Seconds(10);
  // Called before each wait, on any thread; must not block. A caller may want to say why its answer
  // takes so long.
  std::function<void(const Retry&)> on_retry;
};

// Returns the policy that uses up this patience: it has as many attempts as fit in, up to 100000,
// and one alone where the patience is zero.
RetryPolicy PolicyOf(absl::Duration patience);

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
  absl::Time first_failure = absl::InfiniteFuture();  // of the call
  absl::Time now;
  absl::Time deadline = absl::InfiniteFuture();
  bool elsewhere = false;  // the next attempt goes to another server
};

// Returns the time to wait before the next attempt; nothing where there must be none:
//   - the code is neither UNAVAILABLE nor RESOURCE_EXHAUSTED;
//   - RESOURCE_EXHAUSTED without a pushback, which is no transient refusal (gRPC
//     answers a message over the limit so);
//   - the server forbade it, or asked for more than max_pushback;
//   - the attempts are used up, or without a pushback the patience is;
//   - the wait would reach the deadline.
// A pushback is kept exactly; otherwise the backoff is exponential with jitter drawn
// from `generator`. After UNAVAILABLE of one server another is asked without a wait.
std::optional<absl::Duration> RetryDelay(const RetryPolicy& policy, const FailedAttempt& failed,
                                         absl::BitGenRef generator);

// The failed attempts of one call. Not thread-safe.
class Retries {
 public:
  Retries(const RetryPolicy& policy, absl::Time deadline) : policy_(policy), deadline_(deadline) {}

  // Tells of an attempt that failed at `now`. Returns the time to wait before the next one; or
  // nothing, and then the call ends with ErrorOf() this status. `elsewhere`: the next attempt goes
  // to another server, and so waits for nothing after UNAVAILABLE.
  std::optional<absl::Duration> Fail(const absl::Status& status, const Pushback& pushback,
                                     absl::Time now, bool elsewhere = false);
  // Where an attempt met the deadline, the status also says why those before it failed.
  absl::Status ErrorOf(const absl::Status& last) const;

 private:
  const RetryPolicy policy_;
  const absl::Time deadline_;
  int failures_ = 0;
  absl::Time first_failure_ = absl::InfiniteFuture();
  absl::Status tried_again_;  // the last error that was followed by an attempt
};

}  // namespace gemmd::client
