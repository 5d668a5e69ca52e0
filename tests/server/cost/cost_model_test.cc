#include "server/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

using testing::ReferenceKernel;

constexpr CopyRates kLink = {10, 5, 2, 1 << 20};  // 10 GB/s in, 5 GB/s out, 2 us

Problem Square(std::int64_t size) {
  return MakeProblem(size, size, size, DataType::kF32, DataType::kF32);
}

Plan PlanOf(const Kernel& kernel, const Problem& problem) {
  Plan plan;
  plan.kernel = &kernel;
  plan.predicted_us = problem.flops() / 1e6;  // of 1 TFLOP/s
  return plan;
}

// Stages that took so long, one after the other.
std::vector<StageSpan> Spans(double copy_in_us, double compute_us, double copy_out_us) {
  const auto ns = [](double us) { return static_cast<TimeNs>(us * 1000); };
  const TimeNs arrived = 5000 + ns(copy_in_us);
  const TimeNs computed = arrived + ns(compute_us);
  return {{Stage::kCopyIn, 5000, arrived},
          {Stage::kCompute, arrived, computed},
          {Stage::kCopyOut, computed, computed + ns(copy_out_us)}};
}

std::vector<StageSpan> ComputeSpan(double us) { return {Spans(0, us, 0)[1]}; }

// A device on which every product takes `factor` times its prediction, give or take 5 %.
class SimulatedDevice {
 public:
  explicit SimulatedDevice(double factor) : factor_(factor) {}

  void Run(const Problem& problem, const Plan& plan, CostModel* model) {
    const Cost predicted = model->Predict(problem, plan, Residency());
    model->Observe(predicted, ComputeSpan(plan.predicted_us * factor_ * std::exp(noise_(random_))));
  }

 private:
  const double factor_;
  std::mt19937 random_{5};
  std::normal_distribution<double> noise_{0, 0.05};
};

TEST(CostModel, IsTheRooflineWhereNothingWasMeasured) {
  const ReferenceKernel kernel;
  const Problem problem = Square(1000);
  const CostModel model(kLink);
  const Cost cost = model.Predict(problem, PlanOf(kernel, problem), Residency());
  EXPECT_DOUBLE_EQ(cost.compute_us, 2000);
  EXPECT_DOUBLE_EQ(cost.copy_in_us, 802);   // 8 MB at 10 GB/s and 2 us
  EXPECT_DOUBLE_EQ(cost.copy_out_us, 802);  // 4 MB at 5 GB/s
  EXPECT_DOUBLE_EQ(cost.device_us, 2000);   // they overlap
}

TEST(CostModel, AddsTheStagesOfSmallLaunches) {
  const ReferenceKernel kernel;
  const Problem problem = Square(100);
  const CostModel model(kLink);
  const Cost cost = model.Predict(problem, PlanOf(kernel, problem), Residency());
  EXPECT_DOUBLE_EQ(cost.device_us, cost.copy_in_us + cost.compute_us + cost.copy_out_us);
}

TEST(CostModel, CopiesNothingWhereWorksUseHostMemory) {
  const ReferenceKernel kernel;
  const Problem problem = Square(100);
  testing::FakeClock clock;
  const testing::FakeDevice cpu(&clock, 1 << 20, 1);
  const CostModel model(CopyRatesOf(cpu));
  const Cost cost = model.Predict(problem, PlanOf(kernel, problem), Residency());
  EXPECT_EQ(cost.copy_in_us, 0);
  EXPECT_EQ(cost.copy_out_us, 0);
  EXPECT_DOUBLE_EQ(cost.device_us, cost.compute_us);
}

TEST(CostModel, CountsTheBytesThatMove) {
  Problem problem = MakeProblem(10, 20, 30, DataType::kFp8E4M3, DataType::kBf16);
  problem.epilogue.beta = 1;
  problem.c = problem.d;
  problem.epilogue.has_bias = true;
  problem.a_scaling = Scaling::kTensor;
  problem.b_scaling = Scaling::kVector;
  const Transfers all = TransfersOf(problem, Residency());
  EXPECT_EQ(all.in_bytes, 10 * 30 + 30 * 20 + 2 * 10 * 20 + 2 * 20 + 4 + 4 * 20);
  EXPECT_EQ(all.out_bytes, 2 * 10 * 20);
  Residency b;
  b[WorkPlane::kB] = true;
  EXPECT_EQ(TransfersOf(problem, b).in_bytes, all.in_bytes - 30 * 20);

  DeviceWork work;
  work.problem = problem;
  EXPECT_EQ(TransfersOf(work).in_bytes, all.in_bytes);
  work.buffers.access[WorkPlane::kA] = Access::kDevice;
  work.buffers.access[WorkPlane::kB] = Access::kDirect;  // host memory still
  work.buffers.access[WorkPlane::kC] = Access::kDevice;
  work.buffers.d_access = Access::kDevice;
  EXPECT_EQ(TransfersOf(work).in_bytes, all.in_bytes - 10 * 30 - 2 * 10 * 20);
  EXPECT_EQ(TransfersOf(work).out_bytes, 0U);
}

TEST(CostModel, ConvergesWhereTheRooflineIsThreeTimesWrong) {
  const ReferenceKernel kernel;
  const Problem problem = Square(500);
  const Plan plan = PlanOf(kernel, problem);
  CostModel model({});
  SimulatedDevice device(3);
  for (int i = 0; i < 10; ++i) device.Run(problem, plan, &model);
  const double predicted_us = model.Predict(problem, plan, Residency()).compute_us;
  EXPECT_NEAR(predicted_us, 3 * plan.predicted_us, 0.05 * 3 * plan.predicted_us);
}

TEST(CostModel, IsNotMovedByAnOutlier) {
  const ReferenceKernel kernel;
  const Problem problem = Square(500);
  const Plan plan = PlanOf(kernel, problem);
  CostModel model({});
  SimulatedDevice device(3);
  for (int i = 0; i < 20; ++i) device.Run(problem, plan, &model);
  const Cost before = model.Predict(problem, plan, Residency());
  model.Observe(before, ComputeSpan(1e6));
  EXPECT_NEAR(model.Predict(problem, plan, Residency()).compute_us, before.compute_us,
              0.03 * before.compute_us);
}

TEST(CostModel, ServesAnUnseenShapeByItsKernelAndAnUnseenKernelByItsDevice) {
  const ReferenceKernel first("first");
  const ReferenceKernel second("second");
  const ReferenceKernel third("third");
  const Problem seen = Square(5000);
  const Problem unseen = Square(9000);
  CostModel model({});
  SimulatedDevice slow(3);
  SimulatedDevice fast(0.5);
  for (int i = 0; i < 40; ++i) slow.Run(seen, PlanOf(first, seen), &model);
  for (int i = 0; i < 6; ++i) fast.Run(seen, PlanOf(second, seen), &model);
  const auto ratio = [&](const Kernel& kernel, const Problem& problem) {
    const Plan plan = PlanOf(kernel, problem);
    return model.Predict(problem, plan, Residency()).compute_us / plan.predicted_us;
  };
  EXPECT_NEAR(ratio(first, unseen), 3, 0.2);
  EXPECT_NEAR(ratio(second, unseen), 0.5, 0.05);
  // The ratio is between those of the two kernels, and nearer to the one that ran more.
  EXPECT_GT(ratio(third, unseen), 1);
  EXPECT_LT(ratio(third, unseen), 3.2);
}

// Random histories on a device that takes an overhead and a slope, with noise and outliers.
class RandomHistory {
 public:
  explicit RandomHistory(std::uint32_t seed) : random_(seed) {
    overhead_us_ = std::exp(Uniform(0, 6));
    slope_ = std::exp(Uniform(-0.7, 2));
  }

  double Us(const Plan& plan) const { return overhead_us_ + slope_ * plan.predicted_us; }
  std::int64_t Side(std::int64_t most) {
    return std::llround(std::exp(Uniform(0, std::log(static_cast<double>(most)))));
  }
  double Uniform(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  // M, N and K of at most so much.
  Problem AnyProblem(std::int64_t most) {
    return MakeProblem(Side(most), Side(most), Side(most), DataType::kF32, DataType::kF32);
  }
  void Run(const Problem& problem) {
    const Plan plan = PlanOf(kernel_, problem);
    const double outlier = random_() % 20 == 0 ? Uniform(2, 100) : 1;
    const double us = Us(plan) * outlier * std::exp(Uniform(-0.1, 0.1));
    model_.Observe(model_.Predict(problem, plan, Residency()), ComputeSpan(us));
  }
  Cost Predict(const Problem& problem) const {
    return model_.Predict(problem, PlanOf(kernel_, problem), Residency());
  }
  double Us(const Problem& problem) const { return Us(PlanOf(kernel_, problem)); }

 private:
  std::mt19937 random_;
  const ReferenceKernel kernel_;
  CostModel model_{{}};
  double overhead_us_;
  double slope_;
};

// Shapes of one size differ: another's time is certain to a quarter only.
TEST(CostModel, IsLessSureOfAnotherShape) {
  const ReferenceKernel kernel;
  const Problem measured = Square(500);
  const Problem other = MakeProblem(250, 1000, 500, DataType::kF32, DataType::kF32);
  CostModel model({});
  SimulatedDevice device(3);
  for (int i = 0; i < 20; ++i) device.Run(measured, PlanOf(kernel, measured), &model);
  const double own_us = model.Predict(measured, PlanOf(kernel, measured), Residency()).least_us;
  const double other_us = model.Predict(other, PlanOf(kernel, other), Residency()).least_us;
  EXPECT_GT(own_us, 250);
  EXPECT_NEAR(other_us, own_us / 4, 0.1 * own_us / 4);
}

// Another kernel's time at the size says more than this one's at a thousandth of it.
TEST(CostModel, BelievesTheDeviceNearASizeRatherThanTheKernelFarFromIt) {
  const ReferenceKernel known_when_small("test/small");
  const ReferenceKernel known_when_large("test/large");
  const Problem small = Square(50);
  const Problem large = Square(500);
  CostModel model({});
  SimulatedDevice quick(1);
  SimulatedDevice slow(3);
  for (int i = 0; i < 20; ++i) {
    quick.Run(small, PlanOf(known_when_small, small), &model);
    slow.Run(large, PlanOf(known_when_large, large), &model);
  }
  const Cost cost = model.Predict(large, PlanOf(known_when_small, large), Residency());
  EXPECT_NEAR(cost.compute_us, 750, 75);
  EXPECT_EQ(cost.least_us, 0);
}

TEST(CostModel, AfterSmallProductsNothingIsRefusedThatTakesATenthOfItsDeadline) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    RandomHistory history(seed);
    for (int i = 0; i < 200; ++i) history.Run(history.AnyProblem(64));
    for (int i = 0; i < 50; ++i) {
      const Problem problem = history.AnyProblem(4000);
      ASSERT_LT(history.Predict(problem).least_us, 10 * history.Us(problem))
          << "seed " << seed << ", " << ToString(problem);
    }
  }
}

TEST(CostModel, IsWithinAFactorOfTwoAfterTwentyProductsOfAboutTheSize) {
  int wrong = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    RandomHistory history(seed);
    for (int i = 0; i < 100; ++i) history.Run(history.AnyProblem(64));
    const auto of_size = [&](double flops) {
      const std::int64_t m = history.Side(512);
      const std::int64_t n = history.Side(512);
      const double k = flops / 2 / static_cast<double>(m * n);
      return MakeProblem(m, n, std::max<std::int64_t>(1, std::llround(k)), DataType::kF32,
                         DataType::kF32);
    };
    const double flops = std::exp(history.Uniform(14, 24));
    for (int i = 0; i < 20; ++i) history.Run(of_size(flops * std::exp2(history.Uniform(-2, 2))));
    const Problem problem = of_size(flops);
    const double us = history.Predict(problem).compute_us;
    if (us > 2 * history.Us(problem) || us < history.Us(problem) / 2) ++wrong;
  }
  EXPECT_LE(wrong, 1);  // a shape of which an outlier is all that is known
}

TEST(CostModel, TellsApartWhatRunsDifferently) {
  const ReferenceKernel kernel;
  const Problem base = Square(512);
  Problem fewer_rows = MakeProblem(256, 512, 512, DataType::kF32, DataType::kF32);
  Problem half = MakeProblem(512, 512, 512, DataType::kBf16, DataType::kF32);
  Problem gelu = base;
  gelu.epilogue.activation = Activation::kGeluTanh;
  Problem transposed = MakeProblem(512, 512, 512, DataType::kF32, DataType::kF32, true, false);
  Plan other_config = PlanOf(kernel, base);
  other_config.config.split_k = 2;
  std::vector<std::pair<Problem, Plan>> cases;
  for (const Problem& each : {base, fewer_rows, half, gelu, transposed}) {
    cases.emplace_back(each, PlanOf(kernel, each));
  }
  cases.emplace_back(base, other_config);
  CostModel model({});
  double factor = 1;
  for (const auto& [problem, plan] : cases) {
    SimulatedDevice device(factor *= 2);
    for (int i = 0; i < 10; ++i) device.Run(problem, plan, &model);
  }
  factor = 1;
  for (const auto& [problem, plan] : cases) {
    factor *= 2;
    EXPECT_NEAR(model.Predict(problem, plan, Residency()).compute_us / plan.predicted_us, factor,
                0.1 * factor);
  }
  // Values of alpha and rows of the same power of two change nothing.
  Problem scaled = MakeProblem(500, 512, 512, DataType::kF32, DataType::kF32);
  scaled.epilogue.alpha = 7;
  const Plan plan = PlanOf(kernel, scaled);
  EXPECT_NEAR(model.Predict(scaled, plan, Residency()).compute_us / plan.predicted_us, 2, 0.2);
}

TEST(CostModel, LearnsCopiesByDirectionAndSize) {
  const ReferenceKernel kernel;
  const Problem large = Square(1000);
  const Problem small = Square(100);
  CostModel model(kLink);
  for (int i = 0; i < 6; ++i) {
    model.Observe(model.Predict(large, PlanOf(kernel, large), Residency()), Spans(1604, 2000, 401));
  }
  const Cost cost = model.Predict(large, PlanOf(kernel, large), Residency());
  EXPECT_NEAR(cost.copy_in_us, 1604, 1);
  EXPECT_NEAR(cost.copy_out_us, 401, 1);
  // Sizes that were never copied: the direction's.
  const CostModel fresh(kLink);
  const Cost uncorrected = fresh.Predict(small, PlanOf(kernel, small), Residency());
  const Cost corrected = model.Predict(small, PlanOf(kernel, small), Residency());
  EXPECT_GE(corrected.copy_in_us, 2 * uncorrected.copy_in_us);
  EXPECT_LE(corrected.copy_out_us, uncorrected.copy_out_us);
}

TEST(CostModel, PredictsCopiesByThemselvesAsThoseOfLaunches) {
  const ReferenceKernel kernel;
  const Problem problem = Square(1024);
  CostModel model(kLink);
  EXPECT_DOUBLE_EQ(model.PredictCopyInUs(1000000), 102);
  EXPECT_DOUBLE_EQ(model.PredictCopyOutUs(1000000), 202);
  EXPECT_DOUBLE_EQ(model.PredictCopyInUs(0), 0);
  const Cost first = model.Predict(problem, PlanOf(kernel, problem), Residency());
  for (int i = 0; i < 50; ++i) {
    model.Observe(first, Spans(3 * first.copy_in_us, 100, first.copy_out_us));
  }
  const Cost learnt = model.Predict(problem, PlanOf(kernel, problem), Residency());
  EXPECT_NEAR(learnt.copy_in_us / first.copy_in_us, 3, 0.1);
  EXPECT_DOUBLE_EQ(model.PredictCopyInUs(2 << 22), learnt.copy_in_us);
  EXPECT_DOUBLE_EQ(model.PredictCopyOutUs(1 << 22), learnt.copy_out_us);
}

TEST(CostModel, ReportsItsErrorExactly) {
  const ReferenceKernel kernel;
  const Problem problem = Square(100);
  const Plan plan = PlanOf(kernel, problem);
  CostModel model({});
  EXPECT_EQ(model.accuracy().device.count, 0U);
  EXPECT_EQ(model.accuracy().device.mean_absolute_relative_error(), 0);
  Cost predicted = model.Predict(problem, plan, Residency());
  predicted.device_us = predicted.compute_us = 150;
  model.Observe(predicted, ComputeSpan(100));  // 0.5 too much
  predicted.device_us = predicted.compute_us = 50;
  model.Observe(predicted, ComputeSpan(200));  // 0.75 too little
  const CostAccuracy accuracy = model.accuracy();
  EXPECT_EQ(accuracy.device.count, 2U);
  EXPECT_DOUBLE_EQ(accuracy.device.predicted_us, 200);
  EXPECT_DOUBLE_EQ(accuracy.device.measured_us, 300);
  EXPECT_DOUBLE_EQ(accuracy.device.mean_absolute_relative_error(), 0.625);
  EXPECT_DOUBLE_EQ(accuracy.compute.mean_absolute_relative_error(), 0.625);
  EXPECT_EQ(accuracy.copy_in.count, 0U);
  EXPECT_EQ(accuracy.copy_out.count, 0U);
}

TEST(CostModel, MeasuresWhatTheDeviceWasHeldForAsItPredictsIt) {
  const ReferenceKernel kernel;
  CostModel model(kLink);
  const Problem small = Square(100);
  model.Observe(model.Predict(small, PlanOf(kernel, small), Residency()), Spans(10, 20, 30));
  EXPECT_DOUBLE_EQ(model.accuracy().device.measured_us, 60);
  const Problem large = Square(1000);
  model.Observe(model.Predict(large, PlanOf(kernel, large), Residency()), Spans(10, 20, 30));
  EXPECT_DOUBLE_EQ(model.accuracy().device.measured_us, 60 + 30);
}

TEST(CostModel, SumsTheStagesOfPanelsAndLeavesOthersOut) {
  const ReferenceKernel kernel;
  const Problem problem = Square(100);
  CostModel model({});
  std::vector<StageSpan> spans = ComputeSpan(30);
  spans.push_back({Stage::kQueue, 0, 1000000});
  spans.push_back(spans.front());
  model.Observe(model.Predict(problem, PlanOf(kernel, problem), Residency()), spans);
  EXPECT_DOUBLE_EQ(model.accuracy().device.measured_us, 60);
}

TEST(CostModel, LearnsNothingFromALaunchThatTookNoTime) {
  const ReferenceKernel kernel;
  const Problem problem = Square(100);
  const Plan plan = PlanOf(kernel, problem);
  CostModel model({});
  model.Observe(model.Predict(problem, plan, Residency()), {});
  model.Observe(model.Predict(problem, plan, Residency()), ComputeSpan(0));
  EXPECT_DOUBLE_EQ(model.Predict(problem, plan, Residency()).compute_us, plan.predicted_us);
  EXPECT_EQ(model.accuracy().device.count, 0U);
}

TEST(CostModel, IsUsedByManyThreads) {
  const ReferenceKernel kernel;
  CostModel model({});
  std::vector<std::thread> threads;
  for (int t = 1; t <= 4; ++t) {
    threads.emplace_back([&model, &kernel, t] {
      const Problem problem = Square(100 * t);
      const Plan plan = PlanOf(kernel, problem);
      SimulatedDevice device(3);
      for (int i = 0; i < 500; ++i) device.Run(problem, plan, &model);
      EXPECT_NEAR(model.Predict(problem, plan, Residency()).compute_us, 3 * plan.predicted_us,
                  0.2 * plan.predicted_us);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(model.accuracy().device.count, 2000U);
}

}  // namespace
}  // namespace gemmd
