// Measures the cost of a check of three vectors, on one thread: time, and time per element of A, B
// and D.
#include "benchmark/benchmark.h"
#include "kernels/gemm.h"
#include "kernels/verify/freivalds.h"
#include "tests/testing/products/matrices.h"

namespace gemmd {
namespace {

void BM_Check(benchmark::State& state, DataType type, DataType output_type) {
  const std::int64_t size = state.range(0);
  const Problem problem = MakeProblem(size, size, size, type, output_type);
  testing::Operands operands(problem, testing::Distribution::kNormal, 1);
  VerificationOptions options;
  for (auto _ : state) {
    benchmark::DoNotOptimize(VerificationResidual(problem, operands.arguments(), options));
  }
  state.SetItemsProcessed(state.iterations() * 3 * size * size);
}
BENCHMARK_CAPTURE(BM_Check, f32, DataType::kF32, DataType::kF32)->Arg(512)->Arg(2048);
BENCHMARK_CAPTURE(BM_Check, bf16, DataType::kBf16, DataType::kBf16)->Arg(512)->Arg(2048);
BENCHMARK_CAPTURE(BM_Check, fp8, DataType::kFp8E4M3, DataType::kBf16)->Arg(512)->Arg(2048);
BENCHMARK_CAPTURE(BM_Check, f64, DataType::kF64, DataType::kF64)->Arg(512);

}  // namespace
}  // namespace gemmd

BENCHMARK_MAIN();
