#include "client/retry.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "client/details.h"
#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

FailedAttempt Failed(absl::StatusCode code, std::optional<absl::string_view> pushback,
                     int attempts = 1) {
  FailedAttempt failed;
  failed.attempts = attempts;
  failed.code = code;
  failed.pushback = ParsePushback(pushback);
  failed.now = kNow;
  return failed;
}

class RetryTest : public ::testing::Test {
 protected:
  std::optional<absl::Duration> Delay(const FailedAttempt& failed) {
    return RetryDelay(policy_, failed, generator_);
  }

  RetryPolicy policy_;
  std::mt19937 generator_{7};
};

TEST_F(RetryTest, AnErrorThatLastsIsNotTriedAgain) {
  absl::Status status = absl::UnavailableError("certificate verify failed");
  EXPECT_TRUE(Retries(policy_, absl::InfiniteFuture()).Fail(status, Pushback(), kNow).has_value());
  MarkLasting(status);
  EXPECT_FALSE(Retries(policy_, absl::InfiniteFuture()).Fail(status, Pushback(), kNow).has_value());
}

TEST_F(RetryTest, OnlyUnavailableAndExhaustedAreTriedAgain) {
  for (int code = 1; code <= 16; ++code) {
    const auto status_code = static_cast<absl::StatusCode>(code);
    const bool retried = status_code == absl::StatusCode::kUnavailable ||
                         status_code == absl::StatusCode::kResourceExhausted;
    EXPECT_EQ(Delay(Failed(status_code, "10")).has_value(), retried) << code;
  }
}

TEST_F(RetryTest, APushbackIsKeptExactly) {
  EXPECT_EQ(Delay(Failed(absl::StatusCode::kResourceExhausted, "1234")), absl::Milliseconds(1234));
  EXPECT_EQ(Delay(Failed(absl::StatusCode::kUnavailable, "0")), absl::ZeroDuration());
}

TEST_F(RetryTest, NegativeOrMalformedPushbackForbids) {
  for (const char* value :
       {"-1", "", " 5", "5 ", "+5", "5ms", "1.5", "abc", "2147483648", "99999999999999999999"}) {
    EXPECT_FALSE(Delay(Failed(absl::StatusCode::kUnavailable, value))) << value;
    EXPECT_FALSE(Delay(Failed(absl::StatusCode::kResourceExhausted, value))) << value;
  }
}

TEST_F(RetryTest, ExhaustedWithoutPushbackIsNoTransientRefusal) {
  EXPECT_FALSE(Delay(Failed(absl::StatusCode::kResourceExhausted, std::nullopt)));
  EXPECT_TRUE(Delay(Failed(absl::StatusCode::kUnavailable, std::nullopt)));
}

TEST_F(RetryTest, BackoffGrowsToItsBound) {
  policy_.jitter = 0;
  policy_.max_attempts = 100;
  const std::vector<int> expected_ms = {50, 100, 200, 400, 800, 1600, 2000, 2000};
  for (int i = 0; i < static_cast<int>(expected_ms.size()); ++i) {
    EXPECT_EQ(Delay(Failed(absl::StatusCode::kUnavailable, std::nullopt, i + 1)),
              absl::Milliseconds(expected_ms[i]));
  }
  EXPECT_EQ(Delay(Failed(absl::StatusCode::kUnavailable, std::nullopt, 99)), policy_.max_backoff);
}

TEST_F(RetryTest, JitterStaysWithinItsFraction) {
  absl::Duration least = absl::InfiniteDuration();
  absl::Duration most = absl::ZeroDuration();
  for (int i = 0; i < 1000; ++i) {
    const auto delay = Delay(Failed(absl::StatusCode::kUnavailable, std::nullopt));
    ASSERT_TRUE(delay);
    least = std::min(least, *delay);
    most = std::max(most, *delay);
  }
  EXPECT_GE(least, absl::Milliseconds(40));
  EXPECT_LE(most, absl::Milliseconds(60));
  EXPECT_LT(least, absl::Milliseconds(42));
  EXPECT_GT(most, absl::Milliseconds(58));
}

TEST_F(RetryTest, AttemptsAreBounded) {
  EXPECT_TRUE(Delay(Failed(absl::StatusCode::kUnavailable, "1", policy_.max_attempts - 1)));
  EXPECT_FALSE(Delay(Failed(absl::StatusCode::kUnavailable, "1", policy_.max_attempts)));
}

TEST_F(RetryTest, PatienceEndsAttemptsThatTheServerDidNotAskFor) {
  policy_.jitter = 0;
  FailedAttempt failed = Failed(absl::StatusCode::kUnavailable, std::nullopt);
  failed.first_failure = kNow - policy_.patience + absl::Milliseconds(50);
  EXPECT_TRUE(Delay(failed));
  failed.first_failure -= absl::Nanoseconds(1);
  EXPECT_FALSE(Delay(failed));
  failed.pushback = ParsePushback("1000");
  EXPECT_TRUE(Delay(failed));
}

// A server may be restarted while a call is tried again; and a caller without a deadline is told.
TEST_F(RetryTest, DefaultsOutlastARestartOfSomeSeconds) {
  Retries retries(policy_, absl::InfiniteFuture());
  absl::Time now = kNow;
  while (const auto delay = retries.Fail(absl::UnavailableError("gone"), Pushback(), now)) {
    now += *delay;
  }
  EXPECT_GE(now - kNow, absl::Seconds(4));
  EXPECT_LE(now - kNow, policy_.patience);
}

TEST_F(RetryTest, AttemptsThatFailSlowlyAreFew) {
  Retries retries(policy_, absl::InfiniteFuture());
  const absl::Status gone = absl::UnavailableError("504");
  EXPECT_TRUE(retries.Fail(gone, Pushback(), kNow + absl::Seconds(60)));
  EXPECT_FALSE(retries.Fail(gone, Pushback(), kNow + absl::Seconds(120)));
}

TEST_F(RetryTest, EachFailureThatAnotherAttemptFollowsIsTold) {
  std::vector<int> told;
  absl::Duration waited;
  policy_.max_attempts = 3;
  policy_.on_retry = [&](const Retry& retry) {
    told.push_back(retry.attempts);
    EXPECT_EQ(retry.status, absl::UnavailableError("gone"));
    waited += retry.delay;
  };
  Retries retries(policy_, absl::InfiniteFuture());
  absl::Time now = kNow;
  while (const auto delay = retries.Fail(absl::UnavailableError("gone"), Pushback(), now)) {
    now += *delay;
  }
  EXPECT_EQ(told, std::vector<int>({1, 2}));
  EXPECT_EQ(waited, now - kNow);
}

TEST_F(RetryTest, AttemptsLastAsLongAsThePatience) {
  EXPECT_EQ(PolicyOf(absl::ZeroDuration()).max_attempts, 1);
  EXPECT_EQ(PolicyOf(absl::InfiniteDuration()).max_attempts, 100000);
  for (const absl::Duration patience :
       {absl::Milliseconds(1), absl::Seconds(1), absl::Seconds(10), absl::Minutes(5)}) {
    const RetryPolicy policy = PolicyOf(patience);
    absl::Duration shortest;
    for (int attempt = 1; attempt < policy.max_attempts; ++attempt) {
      EXPECT_LT(shortest, patience) << "an attempt too many";
      const double backoff = std::min(50 * std::pow(2, attempt - 1), 2000.0);
      shortest += absl::Milliseconds(backoff * (1 - policy.jitter));
    }
    EXPECT_GE(shortest, patience);
  }
}

TEST_F(RetryTest, ADeadlineDoesNotHideWhyAttemptsFailed) {
  Retries retries(policy_, kNow + absl::Seconds(1));
  const absl::Status late = absl::DeadlineExceededError("Deadline Exceeded");
  EXPECT_EQ(retries.ErrorOf(late), late);
  ASSERT_TRUE(retries.Fail(absl::UnavailableError("Connection refused"), Pushback(), kNow));
  EXPECT_FALSE(retries.Fail(late, Pushback(), kNow));
  EXPECT_EQ(retries.ErrorOf(late),
            absl::DeadlineExceededError("Deadline Exceeded; the attempt before failed: "
                                        "UNAVAILABLE: Connection refused"));
  const absl::Status other = absl::NotFoundError("no such handle");
  EXPECT_EQ(retries.ErrorOf(other), other);
}

TEST_F(RetryTest, NeverReachesTheDeadline) {
  FailedAttempt failed = Failed(absl::StatusCode::kUnavailable, "100");
  failed.deadline = kNow + absl::Milliseconds(101);
  EXPECT_TRUE(Delay(failed));
  failed.deadline = kNow + absl::Milliseconds(100);
  EXPECT_FALSE(Delay(failed));
  failed.deadline = kNow - absl::Seconds(1);
  EXPECT_FALSE(Delay(failed));
}

TEST_F(RetryTest, ALongPushbackIsNotWaitedFor) {
  EXPECT_TRUE(Delay(Failed(absl::StatusCode::kUnavailable, "60000")));
  EXPECT_FALSE(Delay(Failed(absl::StatusCode::kUnavailable, "60001")));
}

}  // namespace
}  // namespace gemmd::client
