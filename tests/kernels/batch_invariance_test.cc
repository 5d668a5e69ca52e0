// Class batch_invariant: a row's bits do not depend on how many rows come with it, nor on
// how many threads compute. OpenBLAS called directly breaks this at these very shapes.
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "server/device/cpu_device.h"
#include "tests/testing/products/matrices.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::Operands;

struct Shape {
  std::int64_t n;
  std::int64_t k;
};

class BatchInvariance : public ::testing::TestWithParam<std::tuple<DataType, Shape>> {};

// The first m rows of A, times B.
std::vector<char> Product(const Problem& whole, Operands* operands, std::int64_t m,
                          ThreadExecutor* executor) {
  Problem problem = whole;
  problem.m = problem.a.rows = problem.d.rows = problem.c.rows = m;
  DeviceTraits traits;
  traits.compute_units = executor->workers();
  const Plan plan = *Select(BuiltinRegistry(), problem, traits);
  std::vector<char> d(problem.d.size_bytes());
  const testing::Workspace workspace(plan.workspace_bytes);
  Arguments arguments = operands->arguments();
  arguments.d = d.data();
  arguments.workspace = workspace.data();
  LaunchTarget target;
  target.executor = executor;
  EXPECT_TRUE(plan.kernel->Launch(problem, plan.config, arguments, target).ok());
  return d;
}

TEST_P(BatchInvariance, EveryMGivesARowTheSameBits) {
  const auto [type, shape] = GetParam();
  constexpr std::int64_t kMaxM = 512;
  const DataType output = DefaultOutputType(type);
  Problem whole = MakeProblem(kMaxM, shape.n, shape.k, type, output);
  if (SizeBits(type) == 8) whole.a_scaling = whole.b_scaling = Scaling::kVector;
  Operands operands(whole, Distribution::kNormal, 11);
  ThreadExecutor two_threads(2);
  ThreadExecutor one_thread(1);
  const std::vector<char> expected = Product(whole, &operands, kMaxM, &two_threads);
  const std::size_t row_bytes = shape.n * SizeBits(output) / 8;
  // Every M up to two panels and a bit, then the neighbourhoods of panel edges.
  for (std::int64_t m = 1; m <= kMaxM; m += m < 140 ? 1 : 31) {
    const std::vector<char> d =
        Product(whole, &operands, m, m % 2 == 0 ? &two_threads : &one_thread);
    ASSERT_EQ(std::memcmp(d.data(), expected.data(), m * row_bytes), 0) << "M = " << m;
  }
}

INSTANTIATE_TEST_SUITE_P(ShapesThatOpenBlasTreatsDifferently, BatchInvariance,
                         ::testing::Combine(::testing::Values(DataType::kF32, DataType::kF64,
                                                              DataType::kBf16, DataType::kFp8E4M3),
                                            ::testing::Values(Shape{300, 777}, Shape{64, 4096},
                                                              Shape{1024, 1024})),
                         [](const auto& info) {
                           return std::string(Name(std::get<0>(info.param))) + "_n" +
                                  std::to_string(std::get<1>(info.param).n) + "_k" +
                                  std::to_string(std::get<1>(info.param).k);
                         });

}  // namespace
}  // namespace gemmd
