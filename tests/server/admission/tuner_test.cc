#include "server/admission/tuner.h"

#include <future>
#include <utility>

#include "gtest/gtest.h"
#include "server/device/cpu_device.h"
#include "tests/testing/fake_alarm.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

class TunerTest : public ::testing::Test {
 protected:
  // Tunes the problem, and returns the status that it ends with.
  absl::Status Tune(const Problem& problem) {
    std::promise<absl::Status> end;
    const absl::Status started = tuner_.Start(
        tuner_.NextId(), {{problem}, 1, ""},
        [&end](const absl::StatusOr<TuningReport>& report) { end.set_value(report.status()); });
    if (!started.ok()) return started;
    return end.get_future().get();
  }

  SteadyClock clock_;
  CpuDevice device_{{1, kMemory}, &clock_};
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, SchedulerOptions()};
  Router router_{{{&device_, &scheduler_}}};
  RequestLimits limits_{2147483647, kMemory, kMemory};
  Admission admission_{limits_, &BuiltinRegistry(), &router_, &clock_};
  PlanCache plans_;
  Tuner tuner_{{&BuiltinRegistry(), &router_, &admission_, &plans_, ""}};
};

// A and B are 8 MiB each, D is small.
TEST_F(TunerTest, OperandsAreCountedAndGivenBack) {
  const Problem problem = MakeProblem(16, 16, 1 << 17, DataType::kF32, DataType::kF32);
  {
    const auto others = device_.memory().Reserve(kMemory - (std::uint64_t{12} << 20), 0);
    ASSERT_TRUE(others.ok()) << others.status();
    const absl::Status full = Tune(problem);
    EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  }
  EXPECT_EQ(device_.memory().usage().free_bytes(), kMemory);
  EXPECT_EQ(tuner_.counts().failed, 1u);
  EXPECT_TRUE(Tune(problem).ok());
  EXPECT_EQ(tuner_.counts().failed, 1u);
  EXPECT_EQ(tuner_.counts().finished, 1u);
  EXPECT_GT(tuner_.counts().measured_plans, 0u);
  EXPECT_FALSE(tuner_.counts().is_running);
  while (!scheduler_.WaitUntilIdle(1000)) {
  }
  EXPECT_EQ(device_.memory().usage().free_bytes(), kMemory);
  EXPECT_EQ(scheduler_.statistics().requests, 0u) << "no client asked for them";
}

TEST_F(TunerTest, ADrainingServerMeasuresNothing) {
  router_.StartDraining();
  const Problem problem = MakeProblem(16, 16, 16, DataType::kF32, DataType::kF32);
  EXPECT_EQ(Tune(problem).code(), absl::StatusCode::kUnavailable);
}

TEST_F(TunerTest, WhatMemoryNeverHoldsIsSaid) {
  const Problem problem = MakeProblem(16, 16, 1 << 21, DataType::kF32, DataType::kF32);
  const absl::Status status = Tune(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(device_.memory().usage().free_bytes(), kMemory);
}

}  // namespace
}  // namespace gemmd
