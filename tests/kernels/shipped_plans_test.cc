// The plans that come with the build: kernels of ours, configs they still offer, and the choice.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "tests/testing/h200.h"

namespace gemmd {
namespace {

using testing::H200;

struct Shape {
  std::int64_t m, n, k;
};

// The shapes of docs/benchmarks/hopper-gemm.md.
constexpr Shape kShapes[] = {{512, 512, 512},    {1024, 1024, 1024},  {2048, 2048, 2048},
                             {4096, 4096, 4096}, {8192, 8192, 8192},  {16384, 16384, 16384},
                             {128, 8192, 28672}, {256, 7168, 4096},   {512, 8192, 8192},
                             {4096, 4096, 7168}, {4096, 24576, 1536}, {4096, 7168, 16384},
                             {4096, 32768, 512}, {1, 8192, 8192},     {4, 8192, 8192},
                             {16, 8192, 8192},   {64, 8192, 8192},    {1023, 4095, 4097}};

Problem MakeLanded(const Shape& shape, DataType type) {
  const DataType d_type = type == DataType::kTf32 ? DataType::kF32 : type;
  Problem problem = MakeProblem(shape.m, shape.n, shape.k, type, d_type, false, true);
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->leading_dimension = PaddedLine(*layout);
  }
  return problem;
}

// A plan that selection passes over, because its kernel or config is no more, would fail here.
TEST(ShippedPlans, AreWhatAnH200IsServedBy) {
  const DeviceTraits device = H200();
  PlanCache cache;
  cache.set_shipped(&ShippedPlans());
  std::size_t found = 0;
  for (const Shape& shape : kShapes) {
    for (const DataType type : {DataType::kBf16, DataType::kF16, DataType::kTf32}) {
      const Problem problem = MakeLanded(shape, type);
      const std::optional<MeasuredPlan> measured = ShippedPlans().Find(problem, device);
      if (!measured.has_value() && type == DataType::kTf32) continue;  // the prediction serves it
      ASSERT_TRUE(measured.has_value()) << ToString(problem);
      ++found;
      const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, device, {}, &cache);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_TRUE(plan->is_measured) << ToString(problem);
      EXPECT_EQ(plan->kernel->traits().name, measured->kernel);
      EXPECT_EQ(plan->config, measured->config);
      EXPECT_EQ(plan->kernel->traits().determinism, Determinism::kBatchInvariant);
      // Measuring changes no bits.
      EXPECT_EQ(plan->numerics_id, Select(BuiltinRegistry(), problem, device)->numerics_id);
    }
  }
  EXPECT_EQ(ShippedPlans().size(), found);
}

}  // namespace
}  // namespace gemmd
