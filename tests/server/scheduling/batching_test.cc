// Tests which jobs share a launch, and when it goes.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/sync/coalescing_scope.h"
#include "gtest/gtest.h"
#include "tests/server/scheduling/simulation.h"

namespace gemmd {
namespace {

using testing::Ns;
using testing::Simulation;

std::uint64_t BatchOf(const Simulation& simulation, std::uint64_t id) {
  return simulation.ends.at(id).receipt.batch_requests;
}

void ExpectLaunches(const Simulation& simulation, BatchForm form, std::uint64_t launches,
                    std::uint64_t jobs) {
  const SchedulerStatistics statistics = simulation.scheduler.statistics();
  EXPECT_EQ(statistics.of(form).launches, launches);
  EXPECT_EQ(statistics.of(form).jobs, jobs);
}

TEST(Batching, AnIdleDeviceNeverWaits) {
  Simulation simulation;
  const std::uint64_t id = simulation.Submit(simulation.MakeRows(1, 5));
  EXPECT_EQ(simulation.device.next_end(), simulation.clock.Now() + Ns(30.3));
  simulation.RunUntilIdle();
  EXPECT_EQ(BatchOf(simulation, id), 1u);
}

TEST(Batching, RowsOverOneBGatherWhileTheDeviceIsBusy) {
  Simulation simulation;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(simulation.Submit(simulation.MakeRows(3, 5)));
  simulation.RunUntilIdle();
  EXPECT_EQ(BatchOf(simulation, ids[0]), 1u);
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const Receipt& receipt = simulation.ends.at(ids[i]).receipt;
    EXPECT_EQ(receipt.batch_requests, 9u);
    EXPECT_EQ(receipt.batch_rows, 27u);
    EXPECT_EQ(receipt.batch_flops, 27 * 2.0 * 8 * 8);
  }
  ExpectLaunches(simulation, BatchForm::kAlone, 1, 1);
  ExpectLaunches(simulation, BatchForm::kRows, 1, 9);
}

TEST(Batching, JobsOfOneLaunchAreToldUnderOneDeferral) {
  Simulation simulation;
  int messages = 0;
  simulation.on_end = [&messages](std::uint64_t, const Simulation::End&) {
    EXPECT_TRUE(CoalescingScope::Defer(&messages, [&messages] { ++messages; }));
  };
  for (int i = 0; i < 10; ++i) simulation.Submit(simulation.MakeRows(3, 5));
  simulation.RunUntilIdle();
  EXPECT_EQ(messages, 2);  // the first alone
}

TEST(Batching, JobsThatComeTogetherGoTogether) {
  Simulation simulation;
  std::vector<std::uint64_t> ids;
  {
    const CoalescingScope together;
    for (int i = 0; i < 10; ++i) ids.push_back(simulation.Submit(simulation.MakeRows(3, 5)));
    EXPECT_EQ(simulation.scheduler.queued().jobs, 10u);
  }
  EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 10u);
  ExpectLaunches(simulation, BatchForm::kRows, 1, 10);
}

// One that is cancelled under the scope, or late by its end, is told so; the others go.
TEST(Batching, WhatEndsBeforeItsScopeTakesNoPlaceInTheLaunch) {
  Simulation simulation;
  std::uint64_t cancelled = 0;
  std::uint64_t kept = 0;
  {
    const CoalescingScope together;
    cancelled = simulation.Submit(simulation.MakeRows(3, 5));
    kept = simulation.Submit(simulation.MakeRows(3, 5));
    simulation.scheduler.Cancel(cancelled);
    EXPECT_TRUE(absl::IsCancelled(simulation.ends.at(cancelled).status));
  }
  simulation.RunUntilIdle();
  EXPECT_EQ(BatchOf(simulation, kept), 1u);
}

TEST(Batching, InterleavedKeysDoNotCloseEachOthersBatches) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(100));
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 20; ++i) {
    for (const std::uint64_t weights : {1u, 2u, 3u}) {
      ids.push_back(simulation.Submit(simulation.MakeRows(1, weights)));
    }
  }
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 20u);
}

TEST(Batching, ABatchClosesWhenItIsFull) {
  SchedulerOptions options;
  options.queue.max_rows = 8;
  Simulation simulation(options);
  simulation.Submit(simulation.MakeJob(500));
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 7; ++i) ids.push_back(simulation.Submit(simulation.MakeRows(1, 5)));
  EXPECT_EQ(simulation.scheduler.queued().jobs, 7u);
  ids.push_back(simulation.Submit(simulation.MakeRows(1, 5)));
  EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);  // the device has a second place
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 8u);
}

// The fixed cost of a launch is no reason to make several of it.
TEST(Batching, OnlyWhatJobsAddBoundsALaunch) {
  SchedulerOptions options;
  options.queue.max_us = 20;  // less than B alone
  Simulation simulation(options);
  simulation.Submit(simulation.MakeJob(100));
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(simulation.Submit(simulation.MakeRows(1, 5)));
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 8u);
}

TEST(Batching, ABatchClosesAfterItsDelay) {
  SchedulerOptions options;
  options.queue.delay = Ns(200);
  Simulation simulation(options);
  simulation.Submit(simulation.MakeJob(1900));
  simulation.Submit(simulation.MakeRows(1, 5));
  simulation.RunFor(150);
  simulation.Submit(simulation.MakeRows(1, 5));
  EXPECT_EQ(simulation.alarm.at(), simulation.clock.Now() + Ns(50));
  simulation.RunFor(49);
  EXPECT_EQ(simulation.scheduler.queued().jobs, 2u);
  simulation.RunFor(2);
  EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);
}

TEST(Batching, ABatchClosesWhenAJobWouldBeLateOtherwise) {
  SchedulerOptions options;
  options.queue.delay = Ns(1e6);
  options.queue.max_us = 300;
  Simulation simulation(options);
  simulation.Submit(simulation.MakeJob(1900));
  simulation.Submit(simulation.MakeRows(1, 5));
  std::unique_ptr<Job> urgent = simulation.MakeRows(1, 5);
  urgent->deadline = simulation.clock.Now() + Ns(1000);
  simulation.Submit(std::move(urgent));
  EXPECT_EQ(simulation.scheduler.queued().jobs, 2u);
  simulation.RunFor(399);
  EXPECT_EQ(simulation.scheduler.queued().jobs, 2u);
  simulation.RunFor(2);
  EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);
}

TEST(Batching, ABatchThatGathersHoldsNobodyElseBack) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(100));
  simulation.Submit(simulation.MakeRows(1, 5));
  simulation.Submit(simulation.MakeJob(100));
  EXPECT_EQ(simulation.scheduler.queued().rows, 1);
}

TEST(Batching, SmallProductsShareALaunchAsAGroup) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(100));
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 5; ++i) {
    std::unique_ptr<Job> job = simulation.MakeJob(10);
    job->work.problem.n = testing::SimulatedDevice::kSmallN;
    job->work.problem.m = 100 + i;
    ids.push_back(simulation.Submit(std::move(job)));
  }
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 5u);
  ExpectLaunches(simulation, BatchForm::kAlone, 1, 1);
  ExpectLaunches(simulation, BatchForm::kGroup, 1, 5);
}

TEST(Batching, WhatDiffersInEpilogueOrClassSharesNoLaunch) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(100));
  std::vector<std::uint64_t> ids;
  for (const double alpha : {1.0, 2.0}) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
      for (const DataType type : {DataType::kF32, DataType::kF64}) {
        std::unique_ptr<Job> job = simulation.MakeRows(1, 5);
        job->work.problem.epilogue.alpha = alpha;
        job->work.problem.epilogue.activation = activation;
        job->work.problem.d.type = type;
        ids.push_back(simulation.Submit(std::move(job)));
      }
    }
  }
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 1u);
}

// Columns of B are one product's only where they have the same scales and the same bias.
TEST(Batching, WhatDiffersInVectorsOfColumnsSharesNoLaunch) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(100));
  const float vectors[2] = {};
  std::vector<std::uint64_t> ids;
  for (const float* const bias : {&vectors[0], &vectors[1]}) {
    for (const float* const b_scales : {&vectors[0], &vectors[1]}) {
      std::unique_ptr<Job> job = simulation.MakeRows(1, 5);
      job->work.buffers[WorkPlane::kBias] = bias;
      job->work.buffers[WorkPlane::kBScales] = b_scales;
      ids.push_back(simulation.Submit(std::move(job)));
    }
  }
  simulation.RunUntilIdle();
  for (const std::uint64_t id : ids) EXPECT_EQ(BatchOf(simulation, id), 1u);
}

TEST(Batching, LaunchesOfRowsAreLearntFromUnlessTheyFail) {
  Simulation simulation;
  simulation.device.fails = [](const DeviceLaunch& launch) {
    return launch.form == BatchForm::kRows ? absl::InternalError("broken") : absl::OkStatus();
  };
  const auto learnt = [&simulation] { return simulation.scheduler.cost().accuracy().device.count; };
  for (int i = 0; i < 4; ++i) simulation.Submit(simulation.MakeRows(1, 5));
  simulation.RunUntilIdle();
  EXPECT_EQ(learnt(), 4u);  // each alone, in the end
  simulation.device.fails = nullptr;
  for (int i = 0; i < 4; ++i) simulation.Submit(simulation.MakeRows(1, 5));
  simulation.RunUntilIdle();
  EXPECT_EQ(learnt(), 4u + 2);  // the first alone, and the others together
}

// One bad work in a batch fails alone.
TEST(Batching, AFailedBatchIsRepeatedOneByOne) {
  Simulation simulation;
  simulation.device.fails = [](const DeviceLaunch& launch) {
    for (const DeviceWork& work : launch.works) {
      if (work.problem.m == 13) return absl::InternalError("thirteen");
    }
    return absl::OkStatus();
  };
  simulation.Submit(simulation.MakeJob(100));
  const std::uint64_t good = simulation.Submit(simulation.MakeRows(1, 5));
  const std::uint64_t bad = simulation.Submit(simulation.MakeRows(13, 5));
  const std::uint64_t other = simulation.Submit(simulation.MakeRows(2, 5));
  simulation.RunUntilIdle();
  EXPECT_TRUE(simulation.ends.at(good).status.ok());
  EXPECT_TRUE(simulation.ends.at(other).status.ok());
  EXPECT_EQ(simulation.ends.at(bad).status.message(), "thirteen");
  EXPECT_EQ(BatchOf(simulation, good), 1u);
  EXPECT_EQ(simulation.ends.at(good).receipt.spans.size(), 2u);  // queue and compute
}

// The planner is asked without the scheduler's lock, so anything may come meanwhile.
TEST(Batching, WhatIsCancelledWhileItsRowsArePlannedEndsThoughTheyCannotShare) {
  Simulation simulation;
  simulation.Submit(simulation.MakeJob(100));
  const std::uint64_t first = simulation.Submit(simulation.MakeRows(1, 5));
  const std::uint64_t cancelled = simulation.Submit(simulation.MakeRows(1, 5));
  const std::uint64_t other = simulation.Submit(simulation.MakeRows(1, 5));
  simulation.planner.may_share = [&] {
    simulation.scheduler.Cancel(cancelled);
    EXPECT_EQ(simulation.ends.count(cancelled), 0u);
    return false;
  };
  simulation.RunFor(100);
  ASSERT_EQ(simulation.ends.count(cancelled), 1u);
  EXPECT_TRUE(absl::IsCancelled(simulation.ends.at(cancelled).status));
  simulation.RunUntilIdle();
  EXPECT_TRUE(simulation.ends.at(first).status.ok());
  EXPECT_TRUE(simulation.ends.at(other).status.ok());
  EXPECT_EQ(BatchOf(simulation, other), 1u);
  ExpectLaunches(simulation, BatchForm::kAlone, 3, 3);
  EXPECT_TRUE(simulation.scheduler.WaitUntilIdle(0));
}

TEST(Batching, ALostDeviceIsNotAskedAgain) {
  Simulation simulation;
  int launches = 0;
  simulation.device.fails = [&launches](const DeviceLaunch&) {
    ++launches;
    return absl::UnavailableError("lost");
  };
  for (int i = 0; i < 5; ++i) simulation.Submit(simulation.MakeRows(1, 5));
  simulation.RunUntilIdle();
  EXPECT_EQ(launches, 2);
  for (const auto& [id, end] : simulation.ends) EXPECT_TRUE(absl::IsUnavailable(end.status));
  EXPECT_EQ(simulation.ends.size(), 5u);
}

TEST(Slices, ALongJobLetsOthersInBetweenItsSlices) {
  Simulation simulation;
  const std::uint64_t big = simulation.Submit(simulation.MakeJob(20000));
  simulation.RunFor(5000);
  const std::uint64_t small = simulation.Submit(simulation.MakeJob(100, "other"));
  const TimeNs submitted = simulation.clock.Now();
  simulation.RunUntilIdle();
  // Two slices are with the device when it comes.
  EXPECT_LE(simulation.ends.at(small).at - submitted, Ns(2 * 2000 + 100));
  const Receipt& receipt = simulation.ends.at(big).receipt;
  EXPECT_EQ(receipt.batch_requests, 1u);
  TimeNs computed = 0;
  for (const StageSpan& span : receipt.spans) {
    if (span.stage == Stage::kCompute) computed += span.end - span.start;
  }
  EXPECT_EQ(computed, Ns(20000));
  // The time that the small one had is waiting time of the big one.
  const Attribution attribution = Attribute(receipt);
  EXPECT_EQ(attribution.unattributed + attribution.total, attribution.total);
  ExpectLaunches(simulation, BatchForm::kSlice, 10, 10);
  ExpectLaunches(simulation, BatchForm::kAlone, 1, 1);
}

TEST(Slices, ACancelledLongJobStopsAtItsNextSlice) {
  Simulation simulation;
  const std::uint64_t big = simulation.Submit(simulation.MakeJob(20000));
  simulation.RunFor(5000);
  simulation.scheduler.Cancel(big);
  EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);
  EXPECT_EQ(simulation.ends.count(big), 0u);  // the device still writes its result
  simulation.RunUntilIdle();
  EXPECT_TRUE(absl::IsCancelled(simulation.ends.at(big).status));
  EXPECT_LE(simulation.ends.at(big).at, simulation.ends.at(big).receipt.spans[0].start + Ns(8000));
}

TEST(Slices, AJobThatIsAloneGoesOnInOneLaunch) {
  SchedulerOptions options;
  options.most_alone_us = 30000;
  Simulation simulation(options);
  simulation.device.goes_on = true;
  const std::uint64_t big = simulation.Submit(simulation.MakeJob(100000));
  EXPECT_DOUBLE_EQ(simulation.scheduler.predicted_backlog_us(), 100000);
  simulation.RunFor(30001);
  EXPECT_DOUBLE_EQ(simulation.scheduler.predicted_backlog_us(), 70000);
  simulation.RunUntilIdle();
  const Receipt& receipt = simulation.ends.at(big).receipt;
  EXPECT_EQ(simulation.ends.at(big).at - receipt.spans.front().start, Ns(100000));
  EXPECT_EQ(receipt.spans.size(), 1u + 4u);  // one wait, and each launch's computing
  ExpectLaunches(simulation, BatchForm::kSlice, 4, 4);
}

TEST(Slices, WhoeverComesEndsTheLaunchThatGoesOn) {
  Simulation simulation;
  simulation.device.goes_on = true;
  const std::uint64_t big = simulation.Submit(simulation.MakeJob(20000));
  simulation.RunFor(5000);
  const std::uint64_t small = simulation.Submit(simulation.MakeJob(100, "other"));
  const TimeNs submitted = simulation.clock.Now();
  simulation.RunUntilIdle();
  EXPECT_EQ(simulation.ends.at(small).at - submitted, Ns(1000 + 100));
  EXPECT_EQ(simulation.ends.at(big).at, submitted + Ns(15000 + 100));
  ExpectLaunches(simulation, BatchForm::kSlice, 2, 2);
}

// Its turn would come first again.
TEST(Slices, AJobGoesOnBeforeItsTenantsLaterOnes) {
  Simulation simulation;
  simulation.device.goes_on = true;
  const std::uint64_t big = simulation.Submit(simulation.MakeJob(20000));
  simulation.RunFor(5000);
  const std::uint64_t small = simulation.Submit(simulation.MakeJob(100));
  simulation.RunFor(1000);
  std::unique_ptr<Job> urgent = simulation.MakeJob(100);
  urgent->deadline = simulation.clock.Now() + Ns(5000);
  const std::uint64_t first = simulation.Submit(std::move(urgent));
  simulation.RunUntilIdle();
  EXPECT_LT(simulation.ends.at(first).at, simulation.ends.at(big).at);
  EXPECT_EQ(simulation.ends.at(small).at, simulation.ends.at(big).at + Ns(100));
  ExpectLaunches(simulation, BatchForm::kSlice, 2, 2);
}

// Each has its turns, as if no launch could go on.
TEST(Slices, TwoLongJobsTakeTurns) {
  Simulation simulation;
  const TimeNs start = simulation.clock.Now();
  simulation.device.goes_on = true;
  int goes_on = 0;
  simulation.device.on_submit = [&](const DeviceLaunch& launch) {
    if (launch.goes_on_to != 0) ++goes_on;
  };
  simulation.Submit(simulation.MakeJob(20000, "a"));
  const std::uint64_t second = simulation.Submit(simulation.MakeJob(10000, "b"));
  simulation.RunUntilIdle();
  EXPECT_NEAR(static_cast<double>(simulation.ends.at(second).at - start), Ns(20000), Ns(4000));
  EXPECT_EQ(goes_on, 2);  // before the second came, and after it
}

TEST(Slices, ALaunchThatGoesOnStopsWhenItsJobIsGivenUp) {
  for (const bool is_late : {false, true}) {
    Simulation simulation;
    const TimeNs start = simulation.clock.Now();
    simulation.device.goes_on = true;
    simulation.device.slowness = 2;
    std::unique_ptr<Job> job = simulation.MakeJob(40000);
    if (is_late) job->deadline = simulation.clock.Now() + Ns(41000);
    const std::uint64_t big = simulation.Submit(std::move(job));
    simulation.RunFor(41000);
    if (!is_late) simulation.scheduler.Cancel(big);
    EXPECT_EQ(simulation.scheduler.queued().jobs, 0u);
    EXPECT_EQ(simulation.ends.count(big), 0u);  // the device still writes its result
    simulation.RunUntilIdle();
    EXPECT_EQ(simulation.ends.at(big).status.code(),
              is_late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled);
    EXPECT_LE(simulation.ends.at(big).at - start, Ns(45000));
    EXPECT_EQ(simulation.scheduler.predicted_backlog_us(), 0);
  }
}

// Otherwise nothing would ever tell that it is too long for its deadline.
TEST(Slices, AJobThatIsStoppedAtItsDeadlineIsLearntFrom) {
  Simulation simulation;
  simulation.device.slowness = 10;
  std::unique_ptr<Job> job = simulation.MakeJob(20000);
  const DeviceWork work = job->work;
  job->cost = simulation.scheduler.cost().Predict(work);
  EXPECT_DOUBLE_EQ(job->cost.device_us, 20000);
  job->deadline = simulation.clock.Now() + Ns(90000);
  const std::uint64_t id = simulation.Submit(std::move(job));
  simulation.RunUntilIdle();
  EXPECT_TRUE(absl::IsDeadlineExceeded(simulation.ends.at(id).status));
  EXPECT_NEAR(simulation.scheduler.cost().Predict(work).device_us, 200000, 1);
}

struct Piece {
  TimeNs at = 0;
  bool is_ahead = false;
  int slice = 0;
  const SlicedWork* work = nullptr;
};

// Has all slices, and pieces that go ahead of them, written down as they are submitted.
void Record(Simulation* simulation, std::vector<Piece>* pieces) {
  simulation->device.on_submit = [simulation, pieces](const DeviceLaunch& launch) {
    if (launch.form != BatchForm::kSlice) return;
    pieces->push_back(
        {simulation->clock.Now(), launch.is_ahead, launch.slice, launch.sliced.get()});
  };
}

TEST(Slices, WhatTheNextLongJobReadsComesWhileTheFirstComputes) {
  Simulation simulation;
  simulation.device.pieces_ahead = 3;
  std::vector<Piece> pieces;
  Record(&simulation, &pieces);
  const std::uint64_t first = simulation.Submit(simulation.MakeJob(20000));
  EXPECT_EQ(pieces.size(), 2u);  // a device that is idle begins with slices
  const std::uint64_t second = simulation.Submit(simulation.MakeJob(20000));
  const std::uint64_t third = simulation.Submit(simulation.MakeJob(20000));
  simulation.RunUntilIdle();
  std::vector<const SlicedWork*> works;
  std::map<const SlicedWork*, int> ahead;
  for (const Piece& piece : pieces) {
    if (std::find(works.begin(), works.end(), piece.work) == works.end()) {
      works.push_back(piece.work);
    }
    if (piece.is_ahead) ++ahead[piece.work];
    // The third's wait until the second has begun.
    if (piece.work == works.back() && works.size() == 3 && piece.is_ahead) {
      EXPECT_TRUE(std::any_of(pieces.begin(), pieces.end(), [&](const Piece& other) {
        return other.work == works[1] && !other.is_ahead && other.at <= piece.at;
      }));
    }
  }
  ASSERT_EQ(works.size(), 3u);
  EXPECT_EQ(ahead[works[0]], 0);
  EXPECT_EQ(ahead[works[1]], 3);
  EXPECT_EQ(ahead[works[2]], 3);
  for (const std::uint64_t id : {first, second, third}) {
    EXPECT_TRUE(simulation.ends.at(id).status.ok());
  }
  // Copies are in the receipt, and the wait ends with the first slice.
  const Receipt& receipt = simulation.ends.at(second).receipt;
  TimeNs copied = 0;
  TimeNs begun = kNoDeadline;
  for (const StageSpan& span : receipt.spans) {
    if (span.stage == Stage::kCopyIn) copied += span.end - span.start;
    if (span.stage == Stage::kCompute) begun = std::min(begun, span.start);
  }
  EXPECT_EQ(copied, 3 * Ns(1000));
  EXPECT_EQ(receipt.spans.front().stage, Stage::kQueue);
  EXPECT_EQ(receipt.spans.front().end, begun);
  for (const StageSpan& span : receipt.spans) EXPECT_GE(span.start, receipt.spans.front().start);
}

TEST(Slices, AJobThatIsCancelledWhileAPieceComesEndsWithThePiece) {
  Simulation simulation;
  simulation.device.pieces_ahead = 3;
  simulation.Submit(simulation.MakeJob(20000));
  const std::uint64_t second = simulation.Submit(simulation.MakeJob(20000));
  const TimeNs submitted = simulation.clock.Now();
  simulation.scheduler.Cancel(second);
  EXPECT_EQ(simulation.ends.count(second), 0u);  // its memory is still written
  simulation.RunUntilIdle();
  EXPECT_TRUE(absl::IsCancelled(simulation.ends.at(second).status));
  EXPECT_EQ(simulation.ends.at(second).at, submitted + Ns(1000));
}

TEST(Slices, APieceThatFailsEndsItsJobAndNoOther) {
  Simulation simulation;
  simulation.device.pieces_ahead = 3;
  simulation.device.fails = [](const DeviceLaunch& launch) {
    return launch.is_ahead && launch.slice == 1 ? absl::InternalError("broken") : absl::OkStatus();
  };
  const std::uint64_t first = simulation.Submit(simulation.MakeJob(20000));
  const std::uint64_t second = simulation.Submit(simulation.MakeJob(20000));
  simulation.RunUntilIdle();
  EXPECT_TRUE(simulation.ends.at(first).status.ok());
  EXPECT_EQ(simulation.ends.at(second).status.message(), "broken");
}

TEST(Slices, AFailedSliceEndsItsJobAndNoOther) {
  Simulation simulation;
  simulation.device.fails = [](const DeviceLaunch& launch) {
    return launch.form == BatchForm::kSlice && launch.slice == 3 ? absl::InternalError("broken")
                                                                 : absl::OkStatus();
  };
  const std::uint64_t big = simulation.Submit(simulation.MakeJob(20000));
  const std::uint64_t other = simulation.Submit(simulation.MakeJob(100));
  simulation.RunUntilIdle();
  EXPECT_EQ(simulation.ends.at(big).status.message(), "broken");
  EXPECT_TRUE(simulation.ends.at(other).status.ok());
}

}  // namespace
}  // namespace gemmd
