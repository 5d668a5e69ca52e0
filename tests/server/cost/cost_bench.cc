// Measures what Predict() and Observe() cost the thread that admits, or ends, a request.
#include <vector>

#include "benchmark/benchmark.h"
#include "server/cost/cost_model.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

constexpr CopyRates kLink = {55, 55, 3, 256 << 10};
constexpr int kShapes = 64;

CostModel* SharedModel() {
  static auto& model = *new CostModel(kLink);
  return &model;
}

struct Shapes {
  testing::ReferenceKernel kernel;
  std::vector<Problem> problems;
  Plan plan;

  Shapes() {
    for (int i = 1; i <= kShapes; ++i) {
      problems.push_back(MakeProblem(i, 64 * i, 128, DataType::kBf16, DataType::kBf16));
    }
    plan.kernel = &kernel;
    plan.predicted_us = 10;
  }
};

const Shapes& AllShapes() {
  static const auto& shapes = *new Shapes;
  return shapes;
}

void BM_Predict(benchmark::State& state) {
  const Shapes& shapes = AllShapes();
  std::size_t i = 0;
  for (auto _ : state) {
    const Problem& problem = shapes.problems[++i % kShapes];
    benchmark::DoNotOptimize(SharedModel()->Predict(problem, shapes.plan, Residency()));
  }
}
BENCHMARK(BM_Predict)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();

void BM_Observe(benchmark::State& state) {
  const Shapes& shapes = AllShapes();
  const std::vector<StageSpan> spans = {
      {Stage::kCopyIn, 0, 9000}, {Stage::kCompute, 9000, 21000}, {Stage::kCopyOut, 21000, 29000}};
  std::vector<Cost> costs;
  for (const Problem& problem : shapes.problems) {
    costs.push_back(SharedModel()->Predict(problem, shapes.plan, Residency()));
  }
  std::size_t i = 0;
  for (auto _ : state) SharedModel()->Observe(costs[++i % kShapes], spans);
}
BENCHMARK(BM_Observe)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();

}  // namespace
}  // namespace gemmd

BENCHMARK_MAIN();
