#include "client/calls/lease_renewal.h"

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd::client {
namespace {

// Time that the test owns.
class ManualTimer : public Timer {
 public:
  void After(absl::Duration delay, std::function<void()> work) override {
    delays.push_back(delay);
    next = std::move(work);
  }
  // Does now the work that was asked for last.
  void Ring() { std::exchange(next, nullptr)(); }

  std::vector<absl::Duration> delays;
  std::function<void()> next;
};

class LeaseRenewalTest : public ::testing::Test {
 protected:
  // The next work holds the renewal's state, and that holds the timer.
  ~LeaseRenewalTest() override { timer_->next = nullptr; }

  LeaseRenewal::Ask Ask() {
    return [this](LeaseRenewal::Done done) {
      ++asked_;
      done_ = std::move(done);
    };
  }
  // The server's answer to what was asked last.
  void Answer(absl::StatusOr<absl::Duration> lease) {
    std::exchange(done_, nullptr)(std::move(lease));
  }

  std::shared_ptr<ManualTimer> timer_ = std::make_shared<ManualTimer>();
  int asked_ = 0;
  LeaseRenewal::Done done_;
};

TEST_F(LeaseRenewalTest, AnIdleLeaseStaysForAsLongAsItIsRenewed) {
  const LeaseRenewal renewal(absl::Seconds(30), Ask(), timer_);
  absl::Duration now;
  absl::Duration end = absl::Seconds(30);
  for (int i = 1; i <= 1000; ++i) {
    now += timer_->delays.back();
    ASSERT_LT(now, end);
    timer_->Ring();
    ASSERT_EQ(asked_, i);
    end = now + absl::Seconds(30);
    Answer(absl::Seconds(30));
  }
  EXPECT_EQ(now, absl::Seconds(10000));
}

TEST_F(LeaseRenewalTest, TheServersAnswerSaysHowLongTheLeaseIs) {
  const LeaseRenewal renewal(absl::Seconds(30), Ask(), timer_);
  timer_->Ring();
  Answer(absl::Seconds(3));
  EXPECT_EQ(timer_->delays.back(), absl::Seconds(1));
}

TEST_F(LeaseRenewalTest, WhatFailsIsAskedAgainSoonerAndThenLessOften) {
  const LeaseRenewal renewal(absl::Seconds(3), Ask(), timer_);
  for (int i = 0; i < 7; ++i) {
    timer_->Ring();
    Answer(i % 2 == 0 ? absl::UnavailableError("nobody is there")
                      : absl::DeadlineExceededError("no answer"));
  }
  timer_->Ring();
  Answer(absl::Seconds(3));
  timer_->Ring();
  Answer(absl::UnavailableError("nobody is there"));
  std::vector<absl::Duration> expected;
  for (int ms : {1000, 100, 200, 400, 800, 1000, 1000, 1000, 1000, 100}) {
    expected.push_back(absl::Milliseconds(ms));
  }
  EXPECT_EQ(timer_->delays, expected);
}

TEST_F(LeaseRenewalTest, ALeaseThatEndedIsNotAskedForAgain) {
  const LeaseRenewal renewal(absl::Seconds(3), Ask(), timer_);
  timer_->Ring();
  Answer(absl::NotFoundError("out of lease"));
  EXPECT_EQ(timer_->delays.size(), 1u);
  EXPECT_EQ(timer_->next, nullptr);
}

TEST_F(LeaseRenewalTest, NothingIsAskedOnceItIsGone) {
  auto kept = std::make_shared<int>();
  auto renewal = std::make_unique<LeaseRenewal>(
      absl::Seconds(3), [this, kept](const LeaseRenewal::Done&) { ++asked_; }, timer_);
  renewal.reset();
  EXPECT_EQ(kept.use_count(), 1);  // though the timer is not done
  timer_->Ring();
  EXPECT_EQ(asked_, 0);
}

TEST_F(LeaseRenewalTest, ItsEndWaitsForTheAnswerThatIsUnderWay) {
  auto renewal = std::make_unique<LeaseRenewal>(absl::Seconds(3), Ask(), timer_);
  timer_->Ring();
  bool has_answered = false;
  std::promise<void> begins;
  std::thread server([&] {
    begins.get_future().wait();
    has_answered = true;
    Answer(absl::Seconds(3));
  });
  begins.set_value();
  renewal.reset();
  EXPECT_TRUE(has_answered);
  server.join();
  timer_->Ring();
  EXPECT_EQ(asked_, 1);
}

}  // namespace
}  // namespace gemmd::client
