#include "server/scheduling/scheduler.h"

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/observe/refusal.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

using testing::BoundOf;
using testing::FakeAlarm;
using testing::FakeClock;
using testing::FakeDevice;

class SchedulerTest : public ::testing::Test {
 protected:
  // The end of each finished job, by id; a second end of the same job fails the test.
  std::unique_ptr<Job> MakeJob(std::uint64_t id, TimeNs deadline = kNoDeadline) {
    auto job = std::make_unique<Job>();
    job->id = id;
    job->deadline = deadline;
    job->work.problem = MakeProblem(4, 4, 4, DataType::kF32, DataType::kF32);
    job->cost.device_us = job->cost.least_us = 10;
    job->reservation = *device_.memory().Reserve(100, 10);
    job->done = [this, id](absl::Status status, Receipt receipt) {
      free_bytes_when_told_ = device_.memory().usage().free_bytes();
      EXPECT_TRUE(ends_.emplace(id, std::move(status)).second) << id << " ended twice";
      receipts_[id] = std::move(receipt);
    };
    return job;
  }

  absl::StatusCode End(std::uint64_t id) const {
    const auto position = ends_.find(id);
    return position == ends_.end() ? absl::StatusCode::kUnknown : position->second.code();
  }

  FakeClock clock_;
  FakeDevice device_{&clock_, 1000000, 2};
  FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, BoundOf(3)};
  std::map<std::uint64_t, absl::Status> ends_;
  std::map<std::uint64_t, Receipt> receipts_;
  std::uint64_t free_bytes_when_told_ = 0;
};

TEST_F(SchedulerTest, KeepsTheDeviceFullAndServesInOrder) {
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(scheduler_.Submit(MakeJob(id)).ok());
  EXPECT_EQ(device_.running(), 2u);
  EXPECT_EQ(scheduler_.queued().jobs, 3u);
  EXPECT_DOUBLE_EQ(scheduler_.predicted_backlog_us(), 50);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    EXPECT_EQ(End(id), absl::StatusCode::kUnknown);
    EXPECT_TRUE(device_.FinishOne());
    EXPECT_EQ(End(id), absl::StatusCode::kOk);
  }
  EXPECT_EQ(device_.most_in_flight(), 2u);
  EXPECT_TRUE(scheduler_.WaitUntilIdle(0));
  EXPECT_EQ(scheduler_.predicted_backlog_us(), 0);
  EXPECT_EQ(device_.memory().usage().free_bytes(), 1000000u);
}

// A thread that waits for its own product may compute it, but nobody else's.
TEST_F(SchedulerTest, AFreeSubmitterMayRunItsOwnJobOnAnIdleDevice) {
  const auto submit = [&](std::uint64_t id, bool is_free, double us) {
    std::unique_ptr<Job> job = MakeJob(id);
    job->submitter_is_free = is_free;
    job->cost.device_us = us;
    ASSERT_TRUE(scheduler_.Submit(std::move(job)).ok());
  };
  submit(1, false, 10);
  submit(2, true, 10);
  EXPECT_EQ(device_.may_run_here(), 0);
  while (device_.FinishOne()) {
  }
  submit(3, true, 1e6);
  EXPECT_EQ(device_.may_run_here(), 0);
  device_.FinishOne();
  submit(4, true, 10);
  EXPECT_EQ(device_.may_run_here(), 1);
  submit(5, true, 10);
  submit(6, true, 10);
  while (device_.FinishOne()) {
  }
  EXPECT_EQ(device_.may_run_here(), 1);
}

TEST_F(SchedulerTest, RefusesBeyondItsBound) {
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(scheduler_.Submit(MakeJob(id)).ok());
  const absl::Status refused = scheduler_.Submit(MakeJob(6));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "the queue is full: 3 requests wait, and 3 may");
  EXPECT_EQ(End(6), absl::StatusCode::kUnknown);
  while (device_.FinishOne()) {
  }
  EXPECT_EQ(device_.memory().usage().free_bytes(), 1000000u);
}

TEST_F(SchedulerTest, ACancelledQueuedJobEndsAtOnceAndFreesItsBytes) {
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler_.Submit(MakeJob(id)).ok());
  const std::uint64_t free = device_.memory().usage().free_bytes();
  scheduler_.Cancel(3);
  EXPECT_EQ(End(3), absl::StatusCode::kCancelled);
  EXPECT_EQ(device_.memory().usage().free_bytes(), free + 110);
  scheduler_.Cancel(3);
  scheduler_.Cancel(99);
  while (device_.FinishOne()) {
  }
  EXPECT_EQ(End(4), absl::StatusCode::kOk);
}

// A caller that is told may send the next request at once.
TEST_F(SchedulerTest, AJobsBytesAreFreeBeforeItsEndIsTold) {
  ASSERT_TRUE(scheduler_.Submit(MakeJob(1)).ok());
  device_.FinishOne();
  EXPECT_EQ(free_bytes_when_told_, 1000000u);
}

// Two are with the device, and of the three that may wait a tenant has at most two.
TEST_F(SchedulerTest, ATenantHasItsShareOfTheQueue) {
  SchedulerOptions options = BoundOf(3);
  options.tenant_percent = 50;
  FakeAlarm alarm;
  Scheduler scheduler(&device_, &clock_, &alarm, options);
  const auto submit = [&](std::uint64_t id, const std::string& tenant) {
    std::unique_ptr<Job> job = MakeJob(id);
    job->tenant = tenant;
    return scheduler.Submit(std::move(job));
  };
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(submit(id, "a").ok());
  const absl::Status share = submit(5, "a");
  EXPECT_EQ(share.message(),
            "this tenant's share of the queue is full: 2 requests wait, and 2 may");
  EXPECT_EQ(Name(CauseOf(share)), "queue_share");
  EXPECT_TRUE(submit(6, "b").ok());
  EXPECT_EQ(submit(7, "b").message(), "the queue is full: 3 requests wait, and 3 may");
  while (device_.FinishOne()) {
  }
}

// A newcomer that has time itself may overtake one that has none.
TEST_F(SchedulerTest, ADeadlineIsFarIfAllOthersAreToo) {
  EXPECT_TRUE(scheduler_.IsFarFrom(kNoDeadline, 10));
  EXPECT_TRUE(scheduler_.IsFarFrom(clock_.Now() + 30001, 10));
  EXPECT_FALSE(scheduler_.IsFarFrom(clock_.Now() + 30000, 10));
  for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(scheduler_.Submit(MakeJob(id)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(3, clock_.Now() + 60000)).ok());
  EXPECT_FALSE(scheduler_.IsFarFrom(clock_.Now() + 1000000000, 10));
  EXPECT_FALSE(scheduler_.IsFarFrom(kNoDeadline, 10));
  while (device_.FinishOne()) {
  }
  EXPECT_TRUE(scheduler_.IsFarFrom(clock_.Now() + 1000000000, 10));
}

TEST_F(SchedulerTest, ADeadlineIsNotFarIfAsMuchIsExpected) {
  ExpectedJob expected = scheduler_.Expect({"", Priority::kNormal, kNoDeadline, 90});
  EXPECT_FALSE(scheduler_.IsFarFrom(clock_.Now() + 300000, 10));
  EXPECT_TRUE(scheduler_.IsFarFrom(clock_.Now() + 300001, 10));
  expected = ExpectedJob();
  EXPECT_TRUE(scheduler_.IsFarFrom(clock_.Now() + 30001, 10));
}

TEST_F(SchedulerTest, ACancelledLaunchedJobRunsOnAndItsResultIsDropped) {
  ASSERT_TRUE(scheduler_.Submit(MakeJob(1)).ok());
  scheduler_.Cancel(1);
  EXPECT_EQ(End(1), absl::StatusCode::kUnknown);
  EXPECT_FALSE(scheduler_.WaitUntilIdle(0));
  device_.FinishOne();
  EXPECT_EQ(End(1), absl::StatusCode::kCancelled);
}

TEST_F(SchedulerTest, DeadlinesEndJobsInTheQueueAndAfterTheLaunch) {
  ASSERT_TRUE(scheduler_.Submit(MakeJob(1)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(2, clock_.Now() + 10050)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(3, clock_.Now() + 10050)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(4, clock_.Now() + 100000)).ok());
  clock_.Advance(10050);
  device_.FinishOne();
  EXPECT_EQ(End(1), absl::StatusCode::kOk);
  EXPECT_EQ(End(3), absl::StatusCode::kDeadlineExceeded);
  device_.FinishOne();
  EXPECT_EQ(End(2), absl::StatusCode::kDeadlineExceeded);
  device_.FinishOne();
  EXPECT_EQ(End(4), absl::StatusCode::kOk);
  EXPECT_EQ(device_.running(), 0u);
  EXPECT_EQ(scheduler_.statistics().late_in_queue, 1u);
  EXPECT_EQ(scheduler_.statistics().late_on_device, 1u);
}

// A client that has its answer, and asks for the counters then, finds its request counted.
TEST_F(SchedulerTest, ARequestIsCountedBeforeItsEndIsTold) {
  std::unique_ptr<Job> job = MakeJob(1, clock_.Now() - 1);
  std::uint64_t requests = 0;
  job->done = [&](const absl::Status&, const Receipt&) {
    requests = scheduler_.statistics().requests;
  };
  ASSERT_TRUE(scheduler_.Submit(std::move(job)).ok());
  EXPECT_EQ(requests, 1u);
}

TEST_F(SchedulerTest, ADeviceErrorReachesItsJobAlone) {
  ASSERT_TRUE(scheduler_.Submit(MakeJob(1)).ok());
  ASSERT_TRUE(scheduler_.Submit(MakeJob(2)).ok());
  device_.FinishOne(absl::UnavailableError("device lost"));
  device_.FinishOne();
  EXPECT_EQ(ends_.at(1), absl::UnavailableError("device lost"));
  EXPECT_EQ(End(2), absl::StatusCode::kOk);
}

TEST_F(SchedulerTest, IsIdleOnceAllThatWasSubmittedHasEnded) {
  EXPECT_TRUE(scheduler_.WaitUntilIdle(0));
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(scheduler_.Submit(MakeJob(id)).ok());
  EXPECT_EQ(scheduler_.unfinished_jobs(), 4u);
  EXPECT_FALSE(scheduler_.WaitUntilIdle(0));
  while (device_.FinishOne()) {
  }
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(End(id), absl::StatusCode::kOk);
  EXPECT_EQ(scheduler_.unfinished_jobs(), 0u);
  EXPECT_TRUE(scheduler_.WaitUntilIdle(0));
}

TEST_F(SchedulerTest, ReceiptsTellQueueComputeAndBatch) {
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(scheduler_.Submit(MakeJob(id)).ok());
  clock_.Advance(70);
  device_.FinishOne();
  clock_.Advance(5);
  device_.FinishOne();
  device_.FinishOne();
  const Receipt& receipt = receipts_.at(3);
  ASSERT_EQ(receipt.spans.size(), 2u);
  EXPECT_EQ(receipt.spans[0].stage, Stage::kQueue);
  EXPECT_EQ(receipt.spans[0].end - receipt.spans[0].start, 70);
  EXPECT_EQ(receipt.spans[1].stage, Stage::kCompute);
  EXPECT_EQ(receipt.spans[1].start, receipt.spans[0].end);
  EXPECT_EQ(receipt.batch_requests, 1u);
  EXPECT_EQ(receipt.batch_rows, 4u);
  EXPECT_EQ(receipt.batch_flops, 128);
}

// Submits, cancels, expiries and finishes from four threads: each admitted job ends
// exactly once, and every byte comes back.
TEST(SchedulerRace, NothingIsLostAndNothingLeaks) {
  FakeClock clock;
  FakeDevice device(&clock, 100000, 2);
  FakeAlarm alarm;
  Scheduler scheduler(&device, &clock, &alarm, BoundOf(8));
  std::atomic<int> admitted{0};
  std::atomic<int> ended{0};
  std::atomic<bool> stop{false};
  std::thread finisher([&] {
    while (!stop || device.running() > 0) device.FinishOne();
  });
  std::vector<std::thread> clients;
  for (unsigned seed = 0; seed < 3; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (std::uint64_t i = 0; i < 3000; ++i) {
        auto job = std::make_unique<Job>();
        job->id = seed * 1000000 + i;
        job->work.problem = MakeProblem(1, 1, 1, DataType::kF32, DataType::kF32);
        if (random() % 4 == 0) job->deadline = clock.Now() + TimeNs(random() % 20);
        absl::StatusOr<MemoryReservation> bytes = device.memory().Reserve(random() % 100, 1);
        if (!bytes.ok()) continue;
        job->reservation = *std::move(bytes);
        job->done = [&ended](const absl::Status&, const Receipt&) { ++ended; };
        if (scheduler.Submit(std::move(job)).ok()) ++admitted;
        if (random() % 3 == 0) scheduler.Cancel(seed * 1000000 + i - random() % 3);
        clock.Advance(random() % 5);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  while (!scheduler.WaitUntilIdle(1)) {
  }
  stop = true;
  finisher.join();
  EXPECT_EQ(ended, admitted);
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(device.memory().usage().free_bytes(), 100000u);
}

}  // namespace
}  // namespace gemmd
