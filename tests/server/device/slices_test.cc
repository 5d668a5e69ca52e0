#include "server/device/slices.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

// Costs what it computes, and takes what the test says.
class CutKernel final : public testing::ReferenceKernel {
 public:
  std::string Rejection(const Problem& problem) const override {
    return rejects && rejects(problem) ? "takes no such block" : "";
  }
  std::string NumericsId(const Problem& problem) const override {
    return id ? id(problem) : "test/cut/1";
  }

  std::function<bool(const Problem&)> rejects;
  std::function<std::string(const Problem&)> id;
};

class SlicesTest : public ::testing::Test {
 protected:
  static Problem MakeSquare(std::int64_t n) {
    return MakeProblem(n, n, n, DataType::kF32, DataType::kF32);
  }
  // Sizes of the blocks, in their order.
  std::vector<std::pair<std::int64_t, std::int64_t>> Cut(const Problem& problem, double slice_us) {
    Plan plan;
    plan.kernel = &kernel_;
    plan.predicted_us = slowness_ * kernel_.PredictedUs(problem, {}, {});
    plan.numerics_id = kernel_.NumericsId(problem);
    std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
    std::map<std::pair<std::int64_t, std::int64_t>, int> covered;
    for (const Panel& panel : CutIntoSlices(problem, plan, {}, steps_, slice_us)) {
      sizes.emplace_back(panel.rows(), panel.columns());
      for (std::int64_t m = panel.m_begin; m < panel.m_end; m += 64) {
        for (std::int64_t n = panel.n_begin; n < panel.n_end; n += 64) {
          ++covered[{m, n}];
        }
      }
    }
    for (const auto& [place, times] : covered) EXPECT_EQ(times, 1);
    if (!sizes.empty()) {
      EXPECT_EQ(static_cast<std::int64_t>(covered.size()), problem.m / 64 * (problem.n / 64));
    }
    return sizes;
  }

  CutKernel kernel_;  // 1024 cubed takes 215 us
  SliceSteps steps_{64, 64, false};
  double slowness_ = 1;
};

using Sizes = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST_F(SlicesTest, WhatIsShortEnoughIsNotCut) {
  EXPECT_EQ(Cut(MakeSquare(1024), 215), Sizes());
  EXPECT_EQ(Cut(MakeSquare(64), 0.01), Sizes());  // one step
}

TEST_F(SlicesTest, BlocksAreTheLargestWithinTheLimit) {
  EXPECT_EQ(Cut(MakeSquare(1024), 108), (Sizes{{512, 1024}, {512, 1024}}));
  EXPECT_EQ(Cut(MakeSquare(1024), 107), (Sizes{{384, 1024}, {384, 1024}, {256, 1024}}));
}

// The whole took twice what the kernel predicts, so its parts will too.
TEST_F(SlicesTest, AMeasuredPlanScalesThePredictionsOfBlocks) {
  slowness_ = 2;
  EXPECT_EQ(Cut(MakeSquare(1024), 215), (Sizes{{512, 1024}, {512, 1024}}));
}

TEST_F(SlicesTest, ALongThinProductIsCutAlongItsLength) {
  Problem wide = MakeProblem(64, 1024, 1024, DataType::kF32, DataType::kF32);
  EXPECT_EQ(Cut(wide, 7), (Sizes{{64, 512}, {64, 512}}));
}

// Neither rows nor columns alone are short enough.
TEST_F(SlicesTest, BothAreCutWhereOneWouldNotDo) {
  steps_.rows = steps_.columns = 512;
  EXPECT_EQ(Cut(MakeSquare(1024), 60), Sizes(4, {512, 512}));
  steps_.one_dimension = true;
  EXPECT_EQ(Cut(MakeSquare(1024), 60), Sizes(2, {512, 1024}));
}

// Rows are cut first: blocks of whole rows of D leave in one piece.
TEST_F(SlicesTest, OfEqualCutsTheFirstIsTaken) {
  steps_.rows = steps_.columns = 512;
  kernel_.rejects = [](const Problem& problem) { return problem.m < 1024 && problem.n < 1024; };
  EXPECT_EQ(Cut(MakeSquare(1024), 60), Sizes(2, {512, 1024}));
}

TEST_F(SlicesTest, AKernelThatDoesNotTakeTheLastBlockIsNotCutSo) {
  // Blocks of 384 rows leave 256 for the last.
  kernel_.rejects = [](const Problem& problem) { return problem.m == 256; };
  EXPECT_EQ(Cut(MakeSquare(1024), 107), (Sizes{{1024, 384}, {1024, 384}, {1024, 256}}));
}

TEST_F(SlicesTest, BitsAreThoseOfTheWhole) {
  kernel_.id = [](const Problem& problem) { return absl::StrCat("n", problem.n); };
  EXPECT_EQ(Cut(MakeSquare(1024), 108), (Sizes{{512, 1024}, {512, 1024}}));
  const Problem wide = MakeProblem(64, 1024, 1024, DataType::kF32, DataType::kF32);
  EXPECT_EQ(Cut(wide, 7), Sizes());
  kernel_.id = [](const Problem& problem) { return absl::StrCat("m", problem.m); };
  EXPECT_EQ(Cut(MakeSquare(1024), 108), (Sizes{{1024, 512}, {1024, 512}}));
}

}  // namespace
}  // namespace gemmd
