#include "server/scheduling/job_queue.h"

#include <cstddef>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr TimeNs kStart = 1000000000;

TimeNs Ns(double us) { return static_cast<TimeNs>(us * 1e3); }

// A queue at one moment, and jobs that last as long as the test.
class JobQueueTest : public ::testing::Test {
 protected:
  Job* MakeJob(const std::string& tenant, Priority priority = Priority::kNormal,
               TimeNs deadline = kNoDeadline) {
    Job& job = jobs_.emplace_back();
    job.id = jobs_.size();
    job.work.problem = MakeProblem(1, 8, 8, DataType::kF32, DataType::kF32);
    job.work.plan.kernel = BuiltinRegistry().Find("cpu/panel_f32");
    job.tenant = tenant;
    job.priority = priority;
    job.deadline = deadline;
    return &job;
  }
  // One that goes alone, in so many slices.
  Job* Push(Job* job, double us, int slices = 1) {
    queue_.Push(job, {std::nullopt, slices, us, us, us}, now_);
    return job;
  }
  Job* Push(const std::string& tenant, double us) { return Push(MakeJob(tenant), us); }
  // A row over the one B, which takes `fixed_us` to read.
  Job* PushRow(const std::string& tenant, double us, double fixed_us) {
    Job* const job = MakeJob(tenant);
    job->work.weights_id = 5;
    const BatchKey key(BatchForm::kRows, job->work);
    queue_.Push(job, {key, 1, us + fixed_us, us, us}, now_);
    return job;
  }

  // The jobs of the next launch.
  std::vector<Job*> Pop() {
    std::optional<JobQueue::Turn> turn = queue_.Pop(now_, false);
    return turn.has_value() ? turn->jobs : std::vector<Job*>();
  }
  Job* PopOne() {
    const std::vector<Job*> jobs = Pop();
    EXPECT_EQ(jobs.size(), 1u);
    return jobs.empty() ? nullptr : jobs.front();
  }

  QueuePolicy policy_;  // a turn is worth 500 us
  TimeNs now_ = kStart;
  std::deque<Job> jobs_;
  JobQueue queue_{policy_};
};

// A turn is worth 500 us. The leader's row leaves its tenant enough of that for one job more, the
// mates' rows leave theirs too little: were they charged to the leader's tenant, or to nobody, the
// mates' tenant would be served in between.
TEST_F(JobQueueTest, BatchMatesAreChargedToTheirOwnTenants) {
  std::vector<Job*> batch = {PushRow("leader", 50, 9)};
  for (int i = 0; i < 8; ++i) batch.push_back(PushRow("mates", 50, 9));
  std::vector<Job*> leaders;
  std::vector<Job*> mates;
  for (int i = 0; i < 2; ++i) leaders.push_back(Push("leader", 400));
  for (int i = 0; i < 2; ++i) mates.push_back(Push("mates", 400));
  EXPECT_EQ(Pop(), batch);
  EXPECT_EQ(PopOne(), leaders[0]);
  EXPECT_EQ(PopOne(), leaders[1]);
  EXPECT_EQ(PopOne(), mates[0]);
  EXPECT_EQ(PopOne(), mates[1]);
}

// The fixed cost of a launch is shared by size: 8 of 9 rows pay 8 ninths of it.
TEST_F(JobQueueTest, BatchMatesPayTheirPartOfWhatTheLaunchCostsAnyhow) {
  PushRow("leader", 1, 450);
  for (int i = 0; i < 8; ++i) PushRow("mates", 1, 450);
  std::vector<Job*> leaders;
  for (int i = 0; i < 2; ++i) leaders.push_back(Push("leader", 400));
  Push("mates", 400);
  EXPECT_EQ(Pop().size(), 9u);
  EXPECT_EQ(PopOne(), leaders[0]);
  EXPECT_EQ(PopOne(), leaders[1]);
}

TEST_F(JobQueueTest, WhoHasNothingToDoSavesNothingUp) {
  Push(MakeJob("a", Priority::kLow), 10);  // so that the tenant stays
  Push("a", 10);
  EXPECT_EQ(PopOne(), &jobs_[1]);  // 490 us of the turn are left, and lost
  Job* const of_b = Push("b", 600);
  Job* const of_a = Push("a", 600);
  EXPECT_EQ(PopOne(), of_b);
  EXPECT_EQ(PopOne(), of_a);
}

TEST_F(JobQueueTest, AHigherLevelGoesFirstUntilALowerOneHasAged) {
  Job* const low = Push(MakeJob("a", Priority::kLow), 10);
  now_ += policy_.ageing - 1;
  std::vector<Job*> high;
  for (int i = 0; i < 3; ++i) high.push_back(Push(MakeJob("b", Priority::kHigh), 10));
  Job* const normal = Push(MakeJob("a"), 10);
  EXPECT_EQ(PopOne(), high[0]);
  EXPECT_EQ(PopOne(), high[1]);
  now_ += 1;
  EXPECT_EQ(PopOne(), low);
  EXPECT_EQ(PopOne(), high[2]);
  EXPECT_EQ(PopOne(), normal);
}

TEST_F(JobQueueTest, WhoBeginsToTakeTurnsMakesUpForNothing) {
  std::vector<Job*> low;
  for (int i = 0; i < 3; ++i) low.push_back(Push(MakeJob("a", Priority::kLow), 10));
  std::vector<Job*> high;
  for (int i = 0; i < 6; ++i) high.push_back(Push(MakeJob("b", Priority::kHigh), 10));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(PopOne(), high[i]);
  now_ += policy_.ageing;
  EXPECT_EQ(PopOne(), low[0]);
  EXPECT_EQ(PopOne(), high[4]);
  EXPECT_EQ(PopOne(), low[1]);
  EXPECT_EQ(PopOne(), high[5]);
  EXPECT_EQ(PopOne(), low[2]);
}

TEST_F(JobQueueTest, AJobMayHaveToBeginByATime) {
  Job* const waits = MakeJob("a");
  waits->start_by = now_ + Ns(100);
  Push(waits, 900);
  EXPECT_EQ(queue_.NextLate(), now_ + Ns(100));
  EXPECT_TRUE(queue_.RemoveLate(now_ + Ns(99)).empty());
  EXPECT_EQ(queue_.RemoveLate(now_ + Ns(100)), std::vector<Job*>{waits});
  // The earlier of both counts until it has begun, and the deadline from then on.
  Job* const sliced = MakeJob("a", Priority::kNormal, now_ + Ns(1000));
  sliced->start_by = now_ + Ns(50);
  Push(sliced, 900, 3);
  EXPECT_EQ(queue_.NextLate(), now_ + Ns(50));
  ASSERT_TRUE(queue_.Pop(now_, false).has_value());
  EXPECT_EQ(queue_.NextLate(), sliced->deadline);
  EXPECT_EQ(queue_.RemoveLate(sliced->deadline), std::vector<Job*>{sliced});
  // Without a deadline one that has begun is never late.
  Job* const begun = MakeJob("a");
  begun->start_by = now_ + Ns(50);
  Push(begun, 900, 3);
  ASSERT_TRUE(queue_.Pop(now_, false).has_value());
  EXPECT_EQ(queue_.NextLate(), kNoDeadline);
}

TEST_F(JobQueueTest, TheFirstSliceGivesALateJobItsChance) {
  Job* const job = MakeJob("a", Priority::kNormal, now_ + Ns(1000));
  Push(job, 900, 3);
  EXPECT_EQ(queue_.NextLate(), now_ + Ns(100));
  std::optional<JobQueue::Turn> turn = queue_.Pop(now_, false);
  ASSERT_TRUE(turn.has_value());
  EXPECT_EQ(turn->form, BatchForm::kSlice);
  EXPECT_EQ(turn->slice, 0);
  EXPECT_DOUBLE_EQ(turn->us, 300);
  EXPECT_FALSE(turn->last);
  EXPECT_DOUBLE_EQ(queue_.use().us, 600);
  EXPECT_DOUBLE_EQ(queue_.UseOf("a").us, 600);
  EXPECT_EQ(queue_.NextLate(), job->deadline);
  now_ += Ns(999);
  EXPECT_TRUE(queue_.RemoveLate(now_).empty());
  EXPECT_FALSE(queue_.Pop(now_, false)->last);
  EXPECT_EQ(queue_.RemoveLate(job->deadline), std::vector<Job*>{job});
  EXPECT_EQ(queue_.NextLate(), kNoDeadline);
  EXPECT_EQ(queue_.use().us, 0);
}

TEST_F(JobQueueTest, TheLastSliceTakesTheJobOut) {
  Push(MakeJob("a"), 900, 2);
  EXPECT_FALSE(queue_.Pop(now_, false)->last);
  EXPECT_EQ(queue_.use().jobs, 1u);
  EXPECT_TRUE(queue_.Pop(now_, false)->last);
  EXPECT_EQ(queue_.use().jobs, 0u);
  EXPECT_EQ(queue_.UseOf("a").jobs, 0u);
}

TEST_F(JobQueueTest, SlicesThatALaunchWentOnWithAreTakenOut) {
  Job* const job = MakeJob("a");
  Push(job, 900, 9);
  ASSERT_TRUE(queue_.Pop(now_, false).has_value());
  EXPECT_TRUE(queue_.Skip(*job, 3, false));
  EXPECT_DOUBLE_EQ(queue_.use().us, 500);
  EXPECT_DOUBLE_EQ(queue_.UseOf("a").us, 500);
  std::optional<JobQueue::Turn> turn = queue_.Pop(now_, false);
  EXPECT_EQ(turn->slice, 4);
  EXPECT_FALSE(turn->last);
  // All that are left, though it says more.
  EXPECT_FALSE(queue_.Skip(*job, 100, false));
  EXPECT_EQ(queue_.use().jobs, 0u);
  EXPECT_EQ(queue_.use().us, 0);
  EXPECT_FALSE(queue_.Remove(*job));
}

TEST_F(JobQueueTest, SlicesWhileOthersWaitArePaidFor) {
  for (const bool is_charged : {false, true}) {
    Job* const sliced = MakeJob("a");
    Push(sliced, 200 * 500, 200);
    ASSERT_EQ(queue_.Pop(now_, false)->jobs.front(), sliced);
    Job* const other = MakeJob("b");
    Push(other, 40 * 500, 40);
    EXPECT_TRUE(queue_.Skip(*sliced, 20, is_charged));
    int others_first = 0;
    while (queue_.Pop(now_, false)->jobs.front() == other) ++others_first;
    EXPECT_NEAR(others_first, is_charged ? 20 : 0, 1);
    queue_.Remove(*sliced);
    queue_.Remove(*other);
  }
}

TEST_F(JobQueueTest, AJobIsAheadOfItsTenantsLaterOnesAlone) {
  Job* const first = MakeJob("a");
  EXPECT_FALSE(queue_.IsAheadOfAll(*first));  // it is not here
  Push(first, 900, 9);
  EXPECT_TRUE(queue_.IsAheadOfAll(*first));
  now_ += Ns(1);
  Push(MakeJob("a"), 10);
  EXPECT_TRUE(queue_.IsAheadOfAll(*first));
  for (Job* const other :
       {MakeJob("b"), MakeJob("a", Priority::kLow), MakeJob("a", Priority::kHigh),
        MakeJob("a", Priority::kNormal, now_ + Ns(10))}) {
    Push(other, 10);
    EXPECT_FALSE(queue_.IsAheadOfAll(*first));
    EXPECT_TRUE(queue_.Remove(*other));
    EXPECT_TRUE(queue_.IsAheadOfAll(*first));
  }
}

TEST_F(JobQueueTest, UseIsCountedForEachTenantAndForAll) {
  for (const char* const tenant : {"a", "a", "b"}) {
    Job* const job = MakeJob(tenant);
    job->host_bytes = 100;
    job->work.problem.m = 7;
    Push(job, 10);
  }
  EXPECT_EQ(queue_.UseOf("a").bytes, 200u);
  EXPECT_EQ(queue_.UseOf("a").rows, 14);
  EXPECT_DOUBLE_EQ(queue_.UseOf("b").us, 10);
  EXPECT_EQ(queue_.UseOf("c").jobs, 0u);
  EXPECT_EQ(queue_.use().jobs, 3u);
  EXPECT_EQ(queue_.use().rows, 21);
  EXPECT_TRUE(queue_.Remove(jobs_[1]));
  EXPECT_FALSE(queue_.Remove(jobs_[1]));
  EXPECT_EQ(queue_.UseOf("a").bytes, 100u);
  EXPECT_DOUBLE_EQ(queue_.use().us, 20);
}

// Rows of 5, 5 and 3 where a launch takes 8: the second 5 waits, and the 3 does not.
TEST(JobQueue, ALaunchTakesWhatFitsIt) {
  QueuePolicy policy;
  policy.max_rows = 8;
  JobQueue queue(policy);
  std::deque<Job> jobs(3);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].id = i + 1;
    jobs[i].work.problem = MakeProblem(i == 2 ? 3 : 5, 8, 8, DataType::kF32, DataType::kF32);
    jobs[i].work.plan.kernel = BuiltinRegistry().Find("cpu/panel_f32");
    jobs[i].work.weights_id = 5;
    queue.Push(&jobs[i], {BatchKey(BatchForm::kRows, jobs[i].work), 1, 31, 1, 1}, kStart);
  }
  EXPECT_EQ(queue.Pop(kStart, false)->jobs, (std::vector<Job*>{&jobs[0], &jobs[2]}));
  EXPECT_EQ(queue.Pop(kStart, false)->jobs, std::vector<Job*>{&jobs[1]});
}

// Rows of 900 us each, where a launch's may add 2000.
TEST_F(JobQueueTest, ALaunchIsNotLongerThanItsJobsMayMakeIt) {
  for (int i = 0; i < 3; ++i) PushRow("a", 900, 10);
  EXPECT_EQ(Pop().size(), 2u);
  EXPECT_EQ(Pop().size(), 1u);
}

// Launches of a pending_batch cost B once each: 9 rows, of which a launch takes 8, read it twice.
TEST(JobQueue, AGatheringsLaunchesAreCounted) {
  QueuePolicy policy;
  policy.max_rows = 8;
  JobQueue queue(policy);
  std::deque<Job> jobs(9);
  std::uint64_t id = 1;
  for (Job& job : jobs) {
    job.id = id++;
    job.work.problem = MakeProblem(1, 8, 8, DataType::kF32, DataType::kF32);
    job.work.plan.kernel = BuiltinRegistry().Find("cpu/panel_f32");
    job.work.weights_id = 5;
    queue.Push(&job, {BatchKey(BatchForm::kRows, job.work), 1, 31, 1, 1}, kStart);
  }
  EXPECT_DOUBLE_EQ(queue.use().us, 9 * 1 + 2 * 30);
  EXPECT_EQ(queue.Pop(kStart, true)->jobs.size(), 8u);
  EXPECT_DOUBLE_EQ(queue.use().us, 1 + 30);
  EXPECT_FALSE(queue.Pop(kStart, true).has_value());  // it gathers
  EXPECT_EQ(queue.NextClosing(), kStart + policy.delay);
  EXPECT_TRUE(queue.Pop(kStart + policy.delay, true).has_value());
  EXPECT_EQ(queue.use().us, 0);
}

TEST_F(JobQueueTest, AJobBringsItsTenantsWeight) {
  for (int i = 0; i < 40; ++i) Push("plain", 100);
  for (int i = 0; i < 40; ++i) {
    Job* const job = MakeJob("heavy", Priority::kNormal);
    job->weight = 3;
    Push(job, 100);
  }
  int heavy = 0;
  for (int i = 0; i < 40; ++i) heavy += PopOne()->tenant == "heavy" ? 1 : 0;
  EXPECT_EQ(heavy, 30);
}

// A policy file may be exchanged while jobs wait.
TEST_F(JobQueueTest, ALaterJobBringsAnotherWeight) {
  for (int i = 0; i < 40; ++i) Push("plain", 100);
  for (int i = 0; i < 40; ++i) {
    Job* const job = MakeJob("heavy", Priority::kNormal);
    job->weight = i == 0 ? 1 : 3;
    Push(job, 100);
  }
  int heavy = 0;
  for (int i = 0; i < 40; ++i) heavy += PopOne()->tenant == "heavy" ? 1 : 0;
  EXPECT_EQ(heavy, 30);
}

class PredictedWait : public JobQueueTest {
 protected:
  // The predicted wait of a job of 100 us, of which 60 are certain; -1: it is refused.
  double Wait(const std::string& tenant, TimeNs deadline = kNoDeadline,
              Priority priority = Priority::kNormal) {
    return queue_.PredictWait({tenant, priority, deadline, 100, 60}, 50, now_).value_or(-1);
  }
};

// 50 us are with the device. A tenant that has nothing else waiting goes after one turn of the
// other and as much of the other's again as it takes itself; one that has, after all of that.
TEST_F(PredictedWait, IsThatOfTheTenantsOwnTurn) {
  EXPECT_DOUBLE_EQ(Wait("hog"), 50);
  for (int i = 0; i < 20; ++i) Push("hog", 100);
  EXPECT_DOUBLE_EQ(Wait("hog"), 50 + 2000);
  EXPECT_DOUBLE_EQ(Wait("polite"), 50 + 100 + 500);
}

TEST_F(PredictedWait, OthersBringAtMostAsMuchAgainAsTheyHave) {
  Push("hog", 100);
  EXPECT_DOUBLE_EQ(Wait("polite"), 50 + 2 * 100);
}

TEST_F(PredictedWait, HigherLevelsGoFirstAndLowerOnesAreNotWaitedFor) {
  Push(MakeJob("a", Priority::kHigh), 1000);
  Push(MakeJob("b", Priority::kLow), 1000);
  EXPECT_DOUBLE_EQ(Wait("c"), 50 + 1000);
  EXPECT_DOUBLE_EQ(Wait("c", kNoDeadline, Priority::kHigh), 50 + 100 + 500);
}

TEST_F(PredictedWait, LowerLevelsThatWillHaveAgedTakeTurns) {
  Push(MakeJob("b", Priority::kLow), 1000);
  now_ += policy_.ageing - Ns(150);
  EXPECT_DOUBLE_EQ(Wait("c"), 50 + 1000);
  now_ -= 1;
  EXPECT_DOUBLE_EQ(Wait("c"), 50);
  // No more than the turns of one's own and the launch that may be ahead.
  Push(MakeJob("b", Priority::kLow), 100000);
  now_ += policy_.ageing;
  EXPECT_DOUBLE_EQ(Wait("c"), 50 + 100 + 2000);
}

TEST_F(PredictedWait, ADeadlineIsHeldAgainstWhatIsCertain) {
  for (int i = 0; i < 20; ++i) Push(MakeJob("hog", Priority::kNormal, now_ + Ns(2100)), 100);
  // 50 us with the device, 2000 before it, 60 for certain.
  EXPECT_EQ(Wait("hog", now_ + Ns(2109)), -1);
  EXPECT_DOUBLE_EQ(Wait("hog", now_ + Ns(2110)), 50 + 2000);
  EXPECT_DOUBLE_EQ(Wait("polite", now_ + Ns(2109)), 50 + 100 + 500);
}

TEST_F(PredictedWait, WhoWouldMakeAnEarlierAdmittedOneLateIsRefused) {
  // It is due first, and then the other has 50 + 100 + 900 us to wait and to run.
  Push(MakeJob("a", Priority::kNormal, now_ + Ns(1049)), 900);
  EXPECT_EQ(Wait("a", now_ + Ns(500)), -1);
  Push(MakeJob("a", Priority::kHigh, now_ + Ns(1050)), 900);
  EXPECT_DOUBLE_EQ(Wait("a", now_ + Ns(500), Priority::kHigh), 50);
}

TEST_F(PredictedWait, ExpectedJobsCountAsIfTheyWereHere) {
  const std::uint64_t first = queue_.Expect({"hog", Priority::kNormal, kNoDeadline, 2000}, now_);
  EXPECT_DOUBLE_EQ(Wait("hog"), 50 + 2000);
  EXPECT_DOUBLE_EQ(Wait("polite"), 50 + 100 + 500);
  EXPECT_DOUBLE_EQ(Wait("hog", kNoDeadline, Priority::kLow), 50 + 2000);
  EXPECT_DOUBLE_EQ(Wait("hog", kNoDeadline, Priority::kHigh), 50);
  const TimeNs soon = now_ + Ns(3000);
  const std::uint64_t second = queue_.Expect({"hog", Priority::kNormal, soon, 900}, now_);
  EXPECT_DOUBLE_EQ(queue_.expected_us(), 2900);
  EXPECT_EQ(queue_.use().jobs, 0u);
  // Half of a newcomer's 3000 us is more than what is here and what it takes itself, and is not.
  Job* const here = Push(MakeJob("hog", Priority::kNormal, now_ + Ns(2000)), 1350);
  EXPECT_DOUBLE_EQ(Wait("hog", soon), 50 + 1350);
  ASSERT_TRUE(queue_.Remove(*here));
  Push(MakeJob("hog", Priority::kNormal, now_ + Ns(2000)), 1351);
  EXPECT_DOUBLE_EQ(Wait("hog", soon), 50 + 1351 + 900) << "the first is due later";
  queue_.Forget(first);
  EXPECT_DOUBLE_EQ(Wait("hog"), 50 + 1351 + 900);
  queue_.Forget(second);
  EXPECT_DOUBLE_EQ(Wait("hog"), 50 + 1351);
}

// A client that announces work, and never sends it, has no request refused that can be served.
TEST_F(PredictedWait, AnnouncedWorkAloneRefusesNobody) {
  std::mt19937 random(4);
  for (int i = 0; i < 200; ++i) {
    const TimeNs deadline = random() % 2 == 0 ? kNoDeadline : now_ + Ns(random() % 100000);
    queue_.Expect({std::to_string(random() % 2), static_cast<Priority>(random() % kPriorityCount),
                   deadline, static_cast<double>(random() % 100000)},
                  now_);
    for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
      EXPECT_DOUBLE_EQ(Wait("1", now_ + Ns(300), priority), 50);
      EXPECT_EQ(Wait("1", now_ + Ns(109), priority), -1) << "too soon in any case";
    }
  }
}

TEST_F(PredictedWait, WhoWouldMakeAnExpectedJobLateIsRefused) {
  // It has 50 + 110 + 100 + 900 us to wait and to run if the other goes first.
  Push(MakeJob("a", Priority::kNormal, now_ + Ns(400)), 110);
  queue_.Expect({"a", Priority::kNormal, now_ + Ns(1159), 900}, now_);
  EXPECT_EQ(Wait("a", now_ + Ns(500)), -1);
  now_ += Ns(150);  // now it is late anyway
  EXPECT_DOUBLE_EQ(Wait("a", now_ + Ns(500)), 50 + 110);
}

// Jobs are expected and come, or do not, while others come and go.
TEST_F(PredictedWait, ExpectedJobsCountRightAfterAnyHistory) {
  std::mt19937 random(3);
  const auto tenant = [&] { return std::to_string(random() % 3); };
  const auto priority = [&] { return static_cast<Priority>(random() % kPriorityCount); };
  const auto deadline = [&] {
    return random() % 2 == 0 ? kNoDeadline : now_ + Ns(static_cast<double>(random() % 100000));
  };
  struct Known {
    JobQueue::Newcomer newcomer;
    std::uint64_t number = 0;
  };
  std::vector<Known> known;
  for (int step = 0; step < 3000; ++step) {
    now_ += Ns(static_cast<double>(random() % 100));
    switch (random() % 4) {
      case 0: {
        JobQueue::Newcomer newcomer = {tenant(), priority(), deadline(),
                                       1 + static_cast<double>(random() % 900)};
        if (random() % 4 == 0) newcomer.weight = 1 + random() % 3;
        known.push_back({newcomer, queue_.Expect(newcomer, now_)});
        break;
      }
      case 1: {
        if (known.empty()) break;
        const std::size_t i = random() % known.size();
        queue_.Forget(known[i].number);
        if (random() % 2 == 0) {
          Job* const job =
              MakeJob(known[i].newcomer.tenant, known[i].newcomer.priority, kNoDeadline);
          Push(job, known[i].newcomer.us);
        }
        known.erase(known.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
      case 2:
        Push(MakeJob(tenant(), priority()), 1 + static_cast<double>(random() % 900));
        break;
      default:
        Pop();
        Pop();
    }
    double expected_us = 0;
    for (const Known& each : known) expected_us += each.newcomer.us;
    EXPECT_NEAR(queue_.expected_us(), expected_us, 1e-6);
    // No more is ahead of a high one than all; and with nothing else, exactly that.
    const double wait = Wait("1", kNoDeadline, Priority::kLow);
    EXPECT_LE(wait, 50 + 3 * (expected_us + queue_.use().us) + 10 * policy_.max_us);
    if (queue_.use().jobs == 0 && known.empty()) {
      EXPECT_DOUBLE_EQ(wait, 50);
    }
  }
  for (const Known& each : known) queue_.Forget(each.number);
  while (!Pop().empty()) {
  }
  EXPECT_EQ(queue_.expected_us(), 0);
  for (const Priority each : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    EXPECT_DOUBLE_EQ(Wait("1", kNoDeadline, each), 50);
  }
}

}  // namespace
}  // namespace gemmd
