#include "server/scheduling/router.h"

#include "gtest/gtest.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    for (int i = 0; i < 3; ++i) {
      devices_.push_back(std::make_unique<testing::FakeDevice>(&clock_, 1 << 20, 1));
      alarms_.push_back(std::make_unique<testing::FakeAlarm>());
      schedulers_.push_back(std::make_unique<Scheduler>(
          devices_.back().get(), &clock_, alarms_.back().get(), testing::BoundOf(10)));
      served_.push_back({devices_.back().get(), schedulers_.back().get()});
    }
    router_ = std::make_unique<Router>(served_);
  }

  ~RouterTest() override {
    for (const auto& device : devices_) {
      while (device->FinishOne()) {
      }
    }
  }

  void Submit(std::size_t device, double predicted_us, std::uint64_t id = 1) {
    auto job = std::make_unique<Job>();
    job->id = id;
    job->cost.device_us = predicted_us;
    job->done = [this](absl::Status status, const Receipt&) { last_end_ = std::move(status); };
    ASSERT_TRUE(schedulers_[device]->Submit(std::move(job)).ok());
  }

  std::vector<std::size_t> Order(const std::vector<std::size_t>& holders = {}) const {
    std::vector<const Device*> holding;
    for (const std::size_t each : holders) holding.push_back(devices_[each].get());
    std::vector<std::size_t> order;
    for (const RoutedDevice& each : router_->ByPreference(holding)) {
      for (std::size_t i = 0; i < served_.size(); ++i) {
        if (each.device == served_[i].device) order.push_back(i);
      }
    }
    return order;
  }

  testing::FakeClock clock_;
  std::vector<std::unique_ptr<testing::FakeDevice>> devices_;
  std::vector<std::unique_ptr<testing::FakeAlarm>> alarms_;
  std::vector<std::unique_ptr<Scheduler>> schedulers_;
  std::vector<ServedDevice> served_;
  std::unique_ptr<Router> router_;
  absl::Status last_end_;
};

TEST_F(RouterTest, TheLeastLoadedComesFirst) {
  EXPECT_EQ(Order(), (std::vector<std::size_t>{0, 1, 2}));
  Submit(0, 100);
  EXPECT_EQ(Order(), (std::vector<std::size_t>{1, 2, 0}));
  Submit(1, 300);
  Submit(2, 200);
  EXPECT_EQ(Order(), (std::vector<std::size_t>{0, 2, 1}));
}

TEST_F(RouterTest, TheHolderOfAnOperandComesFirstHoweverBusy) {
  Submit(2, 1e6);
  EXPECT_EQ(Order({2}), (std::vector<std::size_t>{2, 0, 1}));
}

TEST_F(RouterTest, OfSeveralHoldersTheLeastLoadedComesFirst) {
  Submit(1, 2000);
  Submit(2, 1000);
  EXPECT_EQ(Order({1, 2}), (std::vector<std::size_t>{2, 1, 0}));
  Submit(2, 1500, 2);
  EXPECT_EQ(Order({1, 2}), (std::vector<std::size_t>{1, 2, 0}));
  const std::vector<RoutedDevice> route =
      router_->ByPreference(std::vector<const Device*>{devices_[1].get(), devices_[2].get()});
  EXPECT_DOUBLE_EQ(route[1].expected_backlog_us, 2500);
  EXPECT_TRUE(route[1].is_holder);
  EXPECT_FALSE(route[2].is_holder);
}

TEST_F(RouterTest, AnotherHolderMustSaveMoreThanALaunch) {
  Submit(2, Router::kHeadStartUs);
  EXPECT_EQ(Order({2, 1}), (std::vector<std::size_t>{1, 2, 0}));  // level: the lowest number
  Submit(1, 1);
  EXPECT_EQ(Order({2, 1}), (std::vector<std::size_t>{2, 1, 0}));
  Submit(2, 2, 2);
  EXPECT_EQ(Order({2, 1}), (std::vector<std::size_t>{1, 2, 0}));
}

// Work whose payload is still to come is on its way to that device.
TEST_F(RouterTest, WhatIsExpectedCountsAsBacklog) {
  JobQueue::Newcomer newcomer;
  newcomer.us = 50;
  const ExpectedJob expected = schedulers_[0]->Expect(newcomer);
  EXPECT_EQ(Order(), (std::vector<std::size_t>{1, 2, 0}));
  const RoutedDevice last = router_->ByPreference().back();
  EXPECT_DOUBLE_EQ(last.expected_backlog_us, 50);
  EXPECT_DOUBLE_EQ(last.submitted_backlog_us, 0);
}

// A request that was let in before draining may come later: its payload was on its way.
TEST_F(RouterTest, DrainingSendsNobodyAway) {
  EXPECT_FALSE(router_->draining());
  router_->StartDraining();
  EXPECT_TRUE(router_->draining());
  Submit(1, 10, 7);
  EXPECT_EQ(router_->unfinished_jobs(), 1u);
}

TEST_F(RouterTest, SpeaksForAllDevices) {
  Submit(1, 10, 7);
  Submit(1, 10, 8);
  EXPECT_EQ(router_->queued().jobs, 1u);
  EXPECT_FALSE(router_->WaitUntilIdle(0));
  router_->Cancel(8);
  EXPECT_TRUE(absl::IsCancelled(last_end_));
  EXPECT_EQ(router_->queued().jobs, 0u);
  EXPECT_EQ(router_->unfinished_jobs(), 1u);
}

}  // namespace
}  // namespace gemmd
