#include "client/retry.h"

#include <algorithm>
#include <cstdint>

#include "absl/random/distributions.h"
#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/details.h"

namespace gemmd::client {
namespace {

absl::Duration Backoff(const RetryPolicy& policy, int attempts, absl::BitGenRef generator) {
  absl::Duration backoff = policy.initial_backoff;
  for (int i = 1; i < attempts && backoff < policy.max_backoff; ++i) backoff *= policy.multiplier;
  const double factor =
      absl::Uniform(absl::IntervalClosed, generator, 1 - policy.jitter, 1 + policy.jitter);
  return std::min(backoff, policy.max_backoff) * factor;
}

}  // namespace

RetryPolicy PolicyOf(absl::Duration patience) {
  constexpr int kMostAttempts = 100000;
  RetryPolicy policy;
  policy.patience = patience;
  policy.max_attempts = 1;
  absl::Duration waited;
  absl::Duration backoff = policy.initial_backoff;
  while (waited < patience && policy.max_attempts < kMostAttempts) {
    ++policy.max_attempts;
    // The shortest wait that jitter draws: attempts never run out before the patience does.
    waited += backoff * (1 - policy.jitter);
    backoff = std::min(backoff * policy.multiplier, policy.max_backoff);
  }
  return policy;
}

Pushback ParsePushback(std::optional<absl::string_view> value) {
  Pushback pushback;
  if (!value) return pushback;
  std::int32_t milliseconds = -1;
  // SimpleAtoi alone would take signs and white space.
  const bool digits = std::all_of(value->begin(), value->end(),
                                  [](unsigned char c) { return absl::ascii_isdigit(c); });
  if (!digits || !absl::SimpleAtoi(*value, &milliseconds)) {
    pushback.kind = Pushback::Kind::kForbidden;
    return pushback;
  }
  pushback.kind = Pushback::Kind::kDelay;
  pushback.delay = absl::Milliseconds(milliseconds);
  return pushback;
}

std::optional<absl::Duration> RetryDelay(const RetryPolicy& policy, const FailedAttempt& failed,
                                         absl::BitGenRef generator) {
  const bool exhausted = failed.code == absl::StatusCode::kResourceExhausted;
  if (!exhausted && failed.code != absl::StatusCode::kUnavailable) return std::nullopt;
  if (failed.attempts >= policy.max_attempts) return std::nullopt;

  absl::Duration delay;
  const bool waits = exhausted || !failed.elsewhere;
  switch (failed.pushback.kind) {
    case Pushback::Kind::kForbidden:
      return std::nullopt;
    case Pushback::Kind::kAbsent:
      if (exhausted) return std::nullopt;
      if (waits) delay = Backoff(policy, failed.attempts, generator);
      if (failed.now + delay > failed.first_failure + policy.patience) return std::nullopt;
      break;
    case Pushback::Kind::kDelay:
      if (waits) delay = failed.pushback.delay;
      if (delay > policy.max_pushback) return std::nullopt;
      break;
  }
  if (failed.now + delay >= failed.deadline) return std::nullopt;
  return delay;
}

std::optional<absl::Duration> Retries::Fail(const absl::Status& status, const Pushback& pushback,
                                            absl::Time now, bool elsewhere) {
  first_failure_ = std::min(first_failure_, now);
  FailedAttempt failed;
  failed.attempts = ++failures_;
  failed.code = status.code();
  failed.pushback = pushback;
  failed.first_failure = first_failure_;
  failed.now = now;
  failed.deadline = deadline_;
  failed.elsewhere = elsewhere;
  absl::BitGen generator;
  // A certificate that is not trusted may be one server's alone.
  const bool is_over = IsLasting(status) && !elsewhere;
  const std::optional<absl::Duration> delay =
      is_over ? std::nullopt : RetryDelay(policy_, failed, generator);
  if (!delay.has_value()) return std::nullopt;
  tried_again_ = status;
  if (policy_.on_retry) policy_.on_retry({failures_, status, *delay});
  return delay;
}

absl::Status Retries::ErrorOf(const absl::Status& last) const {
  if (!absl::IsDeadlineExceeded(last) || tried_again_.ok()) return last;
  return absl::DeadlineExceededError(
      absl::StrCat(last.message(), "; the attempt before failed: ",
                   tried_again_.ToString(absl::StatusToStringMode::kWithNoExtraData)));
}

}  // namespace gemmd::client
