#include "server/scheduling/launch_facts.h"

#include <utility>

#include "base/time/units.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

class LaunchFactsTest : public ::testing::Test {
 protected:
  LaunchFactsTest() {
    large_.work.problem = MakeProblem(30, 4, 4, DataType::kF32, DataType::kF32);
    small_.work.problem = MakeProblem(10, 4, 4, DataType::kF32, DataType::kF32);
    for (Job* const job : {&large_, &small_}) {
      job->receipt.flops = job->work.problem.flops();
      job->receipt.spans = {{Stage::kQueue, 0, 0}};
    }
    // 400 J a second of computing.
    energy_.AddReading(kSecond, 0);
    energy_.AddLaunch(kSecond, 2 * kSecond);
    energy_.AddReading(2 * kSecond, 400);
  }

  static std::vector<StageSpan> Spans() {
    return {{Stage::kCopyIn, 2 * kSecond, 3 * kSecond},
            {Stage::kCompute, 3 * kSecond, 5 * kSecond},
            {Stage::kCopyOut, 5 * kSecond, 6 * kSecond}};
  }

  Job large_;
  Job small_;
  EnergyMeter energy_;
};

TEST_F(LaunchFactsTest, EnergyIsSharedByFlopsAndOfComputingAlone) {
  const LaunchFacts facts({&large_, &small_}, 0, nullptr, Spans(), {}, &energy_);
  facts.Record(0, 0, &large_.receipt);
  facts.Record(0, 0, &small_.receipt);
  EXPECT_DOUBLE_EQ(*large_.receipt.joules, 2 * 400 * 0.75);
  EXPECT_DOUBLE_EQ(*small_.receipt.joules, 2 * 400 * 0.25);
  energy_.AddReading(6 * kSecond, 2400);
  EXPECT_DOUBLE_EQ(*energy_.JoulesOf(1), 1000) << "the launch's 2 seconds drew the 2000 J";
}

TEST_F(LaunchFactsTest, AWorkInSlicesDrawsWhatItsLaunchesDraw) {
  for (int slice = 0; slice < 3; ++slice) {
    const LaunchFacts facts({&large_}, slice, nullptr, Spans(), {}, &energy_);
    facts.Record(0, 0, &large_.receipt);
  }
  EXPECT_DOUBLE_EQ(*large_.receipt.joules, 3 * 2 * 400);
}

TEST_F(LaunchFactsTest, WhatNobodyCountsIsAbsent) {
  const LaunchFacts without({&large_}, 0, nullptr, Spans(), {}, nullptr);
  without.Record(0, 0, &large_.receipt);
  EXPECT_FALSE(large_.receipt.joules.has_value());
  EnergyMeter idle;
  const LaunchFacts early({&small_}, 0, nullptr, Spans(), {}, &idle);
  early.Record(0, 0, &small_.receipt);
  EXPECT_FALSE(small_.receipt.joules.has_value());
}

}  // namespace
}  // namespace gemmd
