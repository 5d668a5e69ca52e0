#include "kernels/plan_memo.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace gemmd {
namespace {

Problem Base() { return MakeProblem(64, 64, 128, DataType::kF32, DataType::kF32); }

DeviceTraits Cpu(const char* name = "cpu") {
  DeviceTraits device;
  device.name = name;
  return device;
}

MeasuredPlan Measured(const Plan& plan, double us) {
  return {plan.kernel->traits().name, plan.config, us};
}

TEST(PlanMemo, SaysWhatSelectionSays) {
  PlanMemo memo(&BuiltinRegistry(), nullptr);
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Plan> plan = memo.Select(Base(), Cpu());
    const absl::StatusOr<Plan> expected = Select(BuiltinRegistry(), Base(), Cpu());
    ASSERT_TRUE(plan.ok() && expected.ok());
    EXPECT_EQ(plan->kernel, expected->kernel);
    EXPECT_EQ(plan->config, expected->config);
    EXPECT_EQ(plan->numerics_id, expected->numerics_id);
    EXPECT_EQ(plan->predicted_us, expected->predicted_us);
    EXPECT_EQ(memo.size(), 1u);
  }
}

// Each field that selection may look at has a plan of its own.
TEST(PlanMemo, TellsProblemsApart) {
  const std::vector<std::function<void(Problem*)>> changes = {
      [](Problem*) {},
      [](Problem* p) { p->m = p->a.rows = p->d.rows = 65; },
      [](Problem* p) { p->n = p->b.columns = p->d.columns = 65; },
      [](Problem* p) { p->k = p->a.columns = p->b.rows = 129; },
      [](Problem* p) { p->a.leading_dimension += 8; },
      [](Problem* p) { p->b.leading_dimension += 8; },
      [](Problem* p) { p->c.leading_dimension += 8; },
      [](Problem* p) { p->d.leading_dimension += 8; },
      [](Problem* p) { p->a.order = Order::kColumnMajor; },
      [](Problem* p) { p->b.order = Order::kColumnMajor; },
      [](Problem* p) { p->d.order = Order::kColumnMajor; },
      [](Problem* p) { p->transpose_a = true; },
      [](Problem* p) { p->transpose_b = true; },
      [](Problem* p) { p->epilogue.alpha = 2; },
      [](Problem* p) { p->epilogue.beta = 1; },
      [](Problem* p) { p->epilogue.has_bias = true; },
      [](Problem* p) { p->epilogue.activation = Activation::kRelu; },
      [](Problem* p) { p->determinism = Determinism::kFast; }};
  PlanMemo memo(&BuiltinRegistry(), nullptr);
  std::size_t known = 0;
  for (const auto& change : changes) {
    Problem problem = Base();
    change(&problem);
    ASSERT_TRUE(memo.Select(problem, Cpu()).ok());
    EXPECT_EQ(memo.size(), ++known);
  }
  ASSERT_TRUE(memo.Select(Base(), Cpu("other")).ok());
  EXPECT_EQ(memo.size(), ++known);
  ASSERT_TRUE(memo.Select(Base(), Cpu(), {}, 3).ok());
  EXPECT_EQ(memo.size(), ++known);
  const std::string kernel(memo.Select(Base(), Cpu())->kernel->traits().name);
  ASSERT_TRUE(memo.Select(Base(), Cpu(), kernel).ok());
  EXPECT_EQ(memo.size(), ++known);
}

TEST(PlanMemo, FollowsWhatIsMeasured) {
  PlanCache measured;
  PlanMemo memo(&BuiltinRegistry(), &measured);
  const absl::StatusOr<Plan> predicted = memo.Select(Base(), Cpu());
  ASSERT_TRUE(predicted.ok());
  EXPECT_FALSE(predicted->is_measured);
  ASSERT_TRUE(measured.Insert(Base(), Cpu(), Measured(*predicted, 123)).ok());
  EXPECT_EQ(memo.Select(Base(), Cpu())->predicted_us, 123);
  ASSERT_TRUE(measured.Insert(Base(), Cpu(), Measured(*predicted, 7)).ok());
  EXPECT_EQ(memo.Select(Base(), Cpu())->predicted_us, 7);
  measured = PlanCache();
  EXPECT_FALSE(memo.Select(Base(), Cpu())->is_measured);
}

TEST(PlanMemo, TellsAPackedBApart) {
  DeviceTraits emulated = Cpu("emulated");
  emulated.kind = DeviceKind::kEmulated;
  emulated.compute_capability = 90;
  Problem problem = MakeProblem(4, 64, 128, DataType::kBf16, DataType::kF32, false, true);
  problem.b.type = DataType::kInt4;
  problem.b_scaling = Scaling{true, DataType::kF16, 1, 128};
  PlanMemo memo(&BuiltinRegistry(), nullptr);
  const absl::StatusOr<Plan> as_sent = memo.Select(problem, emulated);
  problem.b_packing = Packing::kStrips;
  const absl::StatusOr<Plan> packed = memo.Select(problem, emulated);
  ASSERT_TRUE(as_sent.ok() && packed.ok());
  EXPECT_NE(as_sent->kernel, packed->kernel);
}

TEST(PlanMemo, RefusesAsSelectionDoesEachTime) {
  PlanMemo memo(&BuiltinRegistry(), nullptr);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(memo.Select(Base(), Cpu(), "no/such").status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(memo.size(), 0u);
}

TEST(PlanMemo, ForgetsRatherThanGrows) {
  PlanMemo memo(&BuiltinRegistry(), nullptr);
  Problem problem = Base();
  const std::string kernel(memo.Select(problem, Cpu())->kernel->traits().name);
  for (std::size_t i = 0; i < PlanMemo::kMostPlans + 10; ++i) {
    problem.epilogue.alpha = static_cast<double>(i) + 2;
    ASSERT_TRUE(memo.Select(problem, Cpu(), kernel).ok());
  }
  EXPECT_LE(memo.size(), PlanMemo::kMostPlans);
}

TEST(PlanMemo, ServesThreadsWhilePlansAreMeasured) {
  PlanCache measured;
  PlanMemo memo(&BuiltinRegistry(), &measured);
  const Plan plan = *memo.Select(Base(), Cpu());
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(memo.Select(Base(), Cpu())->kernel, plan.kernel);
    });
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(measured.Insert(Base(), Cpu(), Measured(plan, i + 1)).ok());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memo.Select(Base(), Cpu())->predicted_us, 50);
}

}  // namespace
}  // namespace gemmd
