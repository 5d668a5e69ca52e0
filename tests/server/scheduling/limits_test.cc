// Tests how much may wait: fixed bounds, the limit that adapts, and the options that set them.
#include <string>

#include "gtest/gtest.h"
#include "server/scheduling/adaptive_limit.h"
#include "server/scheduling/queue_bounds.h"
#include "server/settings/scheduling_options.h"

namespace gemmd {
namespace {

constexpr QueueBounds kBounds = {4, 1000, 100, 5000};

std::string Refusal(const QueueUse& use, const QueueUse& more) {
  return std::string(CheckRoom("the queue", use, more, kBounds).message());
}

TEST(QueueBounds, EachIsNamedWhenItIsReached) {
  EXPECT_EQ(Refusal({3, 900, 90, 4000}, {1, 100, 10, 1000}), "");
  EXPECT_EQ(Refusal({4, 0, 0, 0}, {1, 0, 0, 0}), "the queue is full: 4 requests wait, and 4 may");
  EXPECT_EQ(Refusal({1, 900, 0, 0}, {1, 101, 0, 0}),
            "the queue is full: 900 bytes wait, this request is 101 more, and 1000 may");
  EXPECT_EQ(Refusal({1, 0, 90, 0}, {1, 0, 11, 0}),
            "the queue is full: 90 rows wait, this request is 11 more, and 100 may");
  EXPECT_EQ(Refusal({1, 0, 0, 4500}, {1, 0, 0, 501}),
            "the queue is full: 4500 us of predicted work wait, this request is 501 more, and "
            "5000 may");
}

TEST(QueueBounds, WhatNeverFitsIsTakenWhenNothingWaits) {
  EXPECT_EQ(Refusal({}, {1, 5000, 5000, 1e9}), "");
}

TEST(QueueBounds, AShareIsRoundedUp) {
  const QueueBounds share = ShareOf(kBounds, 30);
  EXPECT_EQ(share.jobs, 2u);
  EXPECT_EQ(share.bytes, 300u);
  EXPECT_EQ(share.rows, 30);
  EXPECT_DOUBLE_EQ(share.us, 1500);
}

class AdaptiveLimitTest : public ::testing::Test {
 protected:
  // One window of waits.
  void Observe(double predicted_us, double measured_us) {
    for (int i = 0; i < 64; ++i) limit_.Observe(predicted_us, measured_us);
  }

  AdaptiveLimit limit_{{1e4, 1e6, 2, 64, 1e3}};
};

TEST_F(AdaptiveLimitTest, StaysWhereWaitsAreAsPredicted) {
  Observe(1e5, 1.9e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 1e6);
}

TEST_F(AdaptiveLimitTest, FallsByAsMuchAsWaitsAreTooLongAndToAHalfAtMost) {
  Observe(1e5, 2.5e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 8e5);
  Observe(1e5, 1e8);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 4e5);
  for (int i = 0; i < 20; ++i) Observe(1e5, 1e8);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 1e4);
}

TEST_F(AdaptiveLimitTest, RisesOnlyWhereSomebodyWasRefused) {
  Observe(1e5, 4e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5e5);
  Observe(1e5, 1e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5e5);
  limit_.ObserveRefusal();
  Observe(1e5, 1e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5.5e5);
  // One refusal is good for one rise.
  Observe(1e5, 1e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5.5e5);
}

TEST_F(AdaptiveLimitTest, AFallForgetsWhoWasRefusedBeforeIt) {
  limit_.ObserveRefusal();
  Observe(1e5, 4e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5e5);
  Observe(1e5, 1e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5e5);
}

// Each window is judged by its own waits.
TEST_F(AdaptiveLimitTest, AWindowStartsFromNothing) {
  Observe(1e5, 1.9e5);
  for (int i = 0; i < 63; ++i) limit_.Observe(1e5, 4e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 1e6);
  limit_.Observe(1e5, 4e5);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 5e5);
}

TEST_F(AdaptiveLimitTest, ShortWaitsTellNothing) {
  Observe(10, 900);
  EXPECT_DOUBLE_EQ(limit_.limit_us(), 1e6);
}

TEST(SchedulingOptions, ComeFromTheConfiguration) {
  config::Scheduling config;
  config.set_max_queued_ms(5);
  config.set_batch_delay_us(70);
  config.set_tenant_weights("alice=4,auth:CN=bob=0.5");
  const absl::StatusOr<SchedulerOptions> options = SchedulingOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_DOUBLE_EQ(options->bounds.us, 5000);
  EXPECT_DOUBLE_EQ(options->limit.max_us, 5000);
  EXPECT_LE(options->limit.min_us, 5000);
  EXPECT_EQ(options->bounds.jobs, 1024u);
  EXPECT_EQ(options->queue.delay, 70000);
  EXPECT_DOUBLE_EQ(options->queue.tenant_weights.at("alice"), 4);
  EXPECT_DOUBLE_EQ(options->queue.tenant_weights.at("auth:CN=bob"), 0.5);
}

TEST(SchedulingOptions, ABadWeightIsNamed) {
  for (const char* const weights : {"alice", "alice=", "alice=0", "alice=-1", "a=1,b=x", "a=1e9"}) {
    config::Scheduling config;
    config.set_tenant_weights(weights);
    const absl::Status status = SchedulingOptions(config).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << weights;
    EXPECT_NE(status.message().find("scheduling.tenant_weights has \""), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace gemmd
