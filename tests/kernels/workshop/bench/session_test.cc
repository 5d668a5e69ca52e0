#include "kernels/workshop/bench/session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/gemm.h"
#include "tests/kernels/workshop/bench/fake_machine.h"

namespace gemmd::bench {
namespace {

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    machine_.rivals = {{1.2, 0}, {1.0, 0}, {1.1, 0}, {1.3, 0}};
    machine_.kernels = {{0.8, 0}};
  }

  CaseReport Run(const std::vector<std::string>& arguments) {
    options_ = *ParseOptions(arguments);
    kernels_ = *MatchingKernels(BuiltinRegistry(), options_.kernels);
    std::mt19937_64 order(1);
    return RunCase(Cases(options_).front(), kernels_, options_, &order, &machine_);
  }

  FakeMachine machine_;
  Options options_;
  std::vector<const Kernel*> kernels_;
};

TEST_F(SessionTest, TimesAKernelBesideTheBestRival) {
  const CaseReport report = Run({"--kernels=sm80/a05"});
  EXPECT_EQ(report.algorithms, 4);
  EXPECT_EQ(report.best_algorithm, 2);
  EXPECT_NEAR(report.search_ms, 1.0, 1e-6);
  EXPECT_NEAR(report.first_ms, 1.2, 1e-6);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].error, "");
  EXPECT_NEAR(Derive(report, report.rows[0].timing, nullptr).burst_ratio, 1.25, 1e-6);
}

// A search of launches that the CPU may be slower than tells nothing of them.
TEST_F(SessionTest, TimesEveryRivalWhereLaunchesAreShort) {
  const auto timed = [this](int contender) {
    return std::count(machine_.timed.begin(), machine_.timed.end(), contender);
  };
  Run({"--kernels=sm80/a05"});
  const auto searched = timed(3);  // the slowest of four
  EXPECT_GT(timed(0), searched);
  machine_.timed.clear();
  for (FakeMachine::Contender& rival : machine_.rivals) rival.ms /= 100;
  Run({"--kernels=sm80/a05"});
  EXPECT_GT(timed(3), searched);
}

TEST_F(SessionTest, AKernelThatDoesNotTakeTheCaseSaysWhy) {
  const CaseReport report = Run({"--kernels=sm80/a05", "--layouts=NT"});
  EXPECT_EQ(report.rows[0].error, "takes operands that are not transposed");
  EXPECT_FALSE(report.rows[0].is_wrong);
  EXPECT_EQ(report.rival.error, "");
}

TEST_F(SessionTest, WithoutABlackwellCardLadderDSaysWhyOnEveryRow) {
  const CaseReport report = Run({"--ladder=D"});
  ASSERT_EQ(report.rows.size(), 16u);
  for (const Row& row : report.rows) {
    EXPECT_EQ(row.error, "needs sm_100, this is sm_90; emulated, compiled, not run") << row.kernel;
    EXPECT_FALSE(row.is_wrong);
  }
}

TEST_F(SessionTest, OnOneLadderDIsTimed) {
  machine_.Become(100, 148);
  const CaseReport report = Run({"--ladder=D"});
  ASSERT_EQ(report.rows.size(), 16u);
  for (const Row& row : report.rows) EXPECT_EQ(row.error, "") << row.kernel;
  // Elements, a scale for each 32 of them, and 4 bytes each of D.
  EXPECT_EQ(report.bytes, 2048.0 * 2048 * (2 + 2.0 / 32 + 4));
}

TEST_F(SessionTest, AWrongKernelIsNotTimed) {
  machine_.kernels = {{0.1, 0, -1, 3.0}};
  const CaseReport report = Run({"--kernels=sm80/a05"});
  EXPECT_EQ(report.rows[0].error,
            "tile=256x128x64 stages=3 warps=8 raster_group=8: a sampled element is off by 3 times "
            "its bound");
  EXPECT_TRUE(report.rows[0].is_wrong);
  machine_.kernels = {{0.1, 0, -1, 0.1, 7}};
  EXPECT_EQ(Run({"--kernels=sm80/a05"}).rows[0].error,
            "tile=256x128x64 stages=3 warps=8 raster_group=8: 7 elements differ from cuBLASLt's, "
            "by up to 0.25");
}

TEST_F(SessionTest, WithoutARivalKernelsAreStillTimed) {
  machine_.rivals.clear();
  const CaseReport report = Run({"--kernels=sm80/a0*"});
  EXPECT_EQ(report.rival.error, "has no algorithm for it");
  ASSERT_EQ(report.rows.size(), 8u);
  EXPECT_NEAR(report.rows[5].timing.burst_ms.median, 0.8, 1e-6);
  EXPECT_EQ(Derive(report, report.rows[5].timing, nullptr).burst_ratio, 0);
}

TEST_F(SessionTest, NoRoomForOperandsIsSaidOnEveryRow) {
  machine_.load = absl::ResourceExhaustedError("the GPU has no 9 bytes left");
  const CaseReport report = Run({"--kernels=sm80/a05"});
  EXPECT_EQ(report.rows[0].error, "the GPU has no 9 bytes left");
  EXPECT_FALSE(report.rows[0].is_wrong);
}

TEST_F(SessionTest, AGlobThatMatchesNothingIsRefused) {
  EXPECT_EQ(MatchingKernels(BuiltinRegistry(), {"sm80/*", "sm81/*"}).status().message(),
            "kernels: \"sm81/*\" is no kernel of this build");
}

TEST_F(SessionTest, EachConfigMayHaveARowNamedByWhatDiffers) {
  const CaseReport report =
      Run({"--kernels=sm90/coop128x256c2", "--configs=each", "--layouts=NT", "--types=bf16"});
  ASSERT_GT(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].kernel, "sm90/coop128x256c2");
  EXPECT_EQ(report.rows[1].kernel.rfind("sm90/coop128x256c2 raster_", 0), 0u)
      << report.rows[1].kernel;
  for (const Row& row : report.rows) EXPECT_EQ(row.error, "");
}

TEST_F(SessionTest, TheRivalIsTheBestOnAnyNumberOfStreams) {
  const CaseReport report = Run({"--kernels=sm80/a05", "--rival-streams=1,2"});
  EXPECT_EQ(report.rival_streams, (std::vector<int>{1, 2}));
  EXPECT_EQ(report.algorithms, 4);
  EXPECT_NEAR(report.search_ms, 1.0, 1e-6);  // on one stream, as bare programs search
  EXPECT_NEAR(report.rival.burst_ms.median, 0.5, 1e-6);
}

TEST_F(SessionTest, EachPromiseMayHaveARow) {
  const CaseReport report = Run({"--kernels=sm80/a05", "--settled=both,b,none"});
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].kernel, "sm80/a05");
  EXPECT_EQ(report.rows[1].kernel, "sm80/a05, B settled");
  EXPECT_EQ(report.rows[2].kernel, "sm80/a05, none settled");
  EXPECT_EQ(machine_.promises, (std::vector<Settled>{Settled::kBoth, Settled::kB, Settled::kNone}));
}

TEST_F(SessionTest, PeaksAreMeasuredOncePerType) {
  options_ = *ParseOptions({"--ladder=A"});
  const auto peaks = MeasurePeaks(Cases(options_), options_.protocol, &machine_);
  ASSERT_EQ(peaks.size(), 2u);
  EXPECT_EQ(peaks.at("bf16").burst(), 800);
}

}  // namespace
}  // namespace gemmd::bench
