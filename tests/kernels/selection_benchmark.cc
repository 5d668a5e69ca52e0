// Measures the cost of choosing a plan for an H200, which need not be there:
//   bazel run --config=opt //tests/kernels:selection_benchmark
#include <benchmark/benchmark.h>

#include "kernels/gemm.h"
#include "tests/testing/h200.h"

namespace gemmd {
namespace {

using testing::H200;

Problem Decode(std::int64_t m) {
  return MakeProblem(m, 8192, 8192, DataType::kBf16, DataType::kBf16, false, true);
}

// A walk over the registry, with measured plans for some of the problems.
void BM_SelectByWalk(benchmark::State& state) {
  const DeviceTraits device = H200();
  PlanCache measured;
  for (std::int64_t m = 1; m <= 64; ++m) {
    const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), Decode(m), device);
    if (!plan.ok() ||
        !measured.Insert(Decode(m), device, {plan->kernel->traits().name, plan->config, 1}).ok()) {
      state.SkipWithError("no plan");
      return;
    }
  }
  std::int64_t m = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Select(BuiltinRegistry(), Decode(m++ % 64 + 1), device, {}, &measured));
  }
}
BENCHMARK(BM_SelectByWalk);

// A server has the same problems again and again: here 64 shapes in turn.
void BM_SelectRemembered(benchmark::State& state) {
  const DeviceTraits device = H200();
  PlanCache measured;
  PlanMemo memo(&BuiltinRegistry(), &measured);
  for (std::int64_t m = 1; m <= 64; ++m) {
    if (!memo.Select(Decode(m), device).ok()) state.SkipWithError("no plan");
  }
  std::int64_t m = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(memo.Select(Decode(m++ % 64 + 1), device));
  }
}
BENCHMARK(BM_SelectRemembered)->ThreadRange(1, 2);

}  // namespace
}  // namespace gemmd

BENCHMARK_MAIN();
