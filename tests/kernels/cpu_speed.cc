// Times of CPU kernels beside OpenBLAS' sgemm in the same run, one thread, in turns. Time is what
// the thread had of a processor, and each figure the best of its turns, because other programs can
// only slow it down. The last column is how fast B's own bytes are read:
//   bazel run --config=opt //tests/kernels:cpu_speed
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/quant/quantize.h"
#include "kernels/gemm.h"
#include "openblas/cblas.h"
#include "tests/testing/products/matrices.h"

namespace gemmd {
namespace {

constexpr int kTurns = 7;
constexpr float kTensorScale = 1;

class OneThread final : public ParallelExecutor {
 public:
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(0, i);
  }
  int workers() const override { return 1; }
};

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Rival {
  std::string name;
  std::function<void()> run;
  double bytes_of_b = 0;  // codes alone
  double best_s = 1e30;
};

// A product of the registry, whose operands live as long as it.
std::function<void()> Registered(Problem problem, std::string* name) {
  DeviceTraits traits;
  traits.name = "cpu";
  traits.compute_units = 1;
  traits.f32_gflops = 100;
  traits.memory_gbps = 10;
  const Plan plan = *Select(BuiltinRegistry(), problem, traits);
  *name = plan.kernel->traits().name + " " + ToString(problem);
  auto operands = std::make_shared<testing::Operands>(problem, testing::Distribution::kNormal, 1);
  auto workspace = std::make_shared<testing::Workspace>(plan.workspace_bytes);
  // Scales of blocks: any bytes that are no NaN.
  const auto lines = static_cast<std::size_t>(std::max(problem.m, problem.n));
  auto scales = std::make_shared<std::vector<std::uint8_t>>(
      lines * static_cast<std::size_t>(problem.k) / 4, std::uint8_t{0x38});
  return [=] {
    OneThread executor;
    LaunchTarget target;
    target.executor = &executor;
    Arguments arguments = operands->arguments();
    arguments.workspace = workspace->data();
    if (!problem.a_scaling.scales_whole_lines()) arguments.a_scales = scales->data();
    if (!problem.b_scaling.scales_whole_lines()) arguments.b_scales = scales->data();
    // Any bytes are zero points, too.
    if (problem.b_scaling.has_zero_points) arguments.b_zero_points = scales->data();
    if (problem.b_scaling.has_tensor_scale) arguments.b_tensor_scale = &kTensorScale;
    const absl::Status status = plan.kernel->Launch(problem, plan.config, arguments, target);
    if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  };
}

// A of a real type by B of a quantized format, whose lines are of K.
Problem ByWeights(std::int64_t m, std::int64_t n, std::int64_t k, DataType a, const char* format) {
  Problem problem = MakeProblem(m, n, k, a, a, false, true);
  const QuantFormat& of_b = *FindQuantFormat(format);
  problem.b.type = of_b.element;
  problem.b_scaling = of_b.scaling;
  problem.accumulate = DataType::kF32;
  return problem;
}

Problem BothOf(std::int64_t m, std::int64_t n, std::int64_t k, const char* format) {
  const QuantFormat& of_both = *FindQuantFormat(format);
  Problem problem = MakeProblem(m, n, k, of_both.element, DataType::kF32, false, true);
  problem.a_scaling = problem.b_scaling = of_both.scaling;
  return problem;
}

void Measure(std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<Rival> rivals;
  const auto count = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns);
  };
  std::vector<float> a(count(m, k), 0.5F);
  std::vector<float> b(count(k, n), 0.25F);
  std::vector<float> c(count(m, n));
  openblas_set_num_threads(1);
  Rival blas;
  blas.name = "OpenBLAS sgemm, B is N x K";
  blas.run = [&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n),
                static_cast<int>(k), 1, a.data(), static_cast<int>(k), b.data(),
                static_cast<int>(k), 0, c.data(), static_cast<int>(n));
  };
  blas.bytes_of_b = 4.0 * static_cast<double>(count(k, n));
  rivals.push_back(std::move(blas));
  const auto add = [&](const Problem& problem) {
    Rival rival;
    rival.run = Registered(problem, &rival.name);
    rival.bytes_of_b = static_cast<double>(count(k, n)) * SizeBits(problem.b.type) / 8;
    rivals.push_back(std::move(rival));
  };
  add(MakeProblem(m, n, k, DataType::kF32, DataType::kF32));
  add(MakeProblem(m, n, k, DataType::kF32, DataType::kF32, false, true));
  add(MakeProblem(m, n, k, DataType::kF16, DataType::kF16));
  add(MakeProblem(m, n, k, DataType::kF16, DataType::kF16, false, true));
  add(MakeProblem(m, n, k, DataType::kBf16, DataType::kBf16, false, true));
  for (const char* format : {"int8-g32", "int4-g32-f16", "int4-g128-f16-zp", "mxfp4", "nvfp4",
                             "mxfp6-e2m3", "mxfp8-e4m3", "fp8-e4m3-row"}) {
    add(ByWeights(m, n, k, DataType::kF32, format));
  }
  add(BothOf(m, n, k, "int8-g32"));
  add(MakeProblem(m, n, k, DataType::kInt8, DataType::kInt32, false, true));
  for (int turn = 0; turn < kTurns; ++turn) {
    for (Rival& rival : rivals) {
      const double begin_s = ThreadSeconds();
      rival.run();
      rival.best_s = std::min(rival.best_s, ThreadSeconds() - begin_s);
    }
  }
  const double operations =
      2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  for (const Rival& rival : rivals) {
    std::printf("%9.0f us %7.1f GOP/s %6.2f of sgemm %6.1f GB/s of B  %s\n", rival.best_s * 1e6,
                operations / rival.best_s * 1e-9, rivals[0].best_s / rival.best_s,
                rival.bytes_of_b / rival.best_s * 1e-9, rival.name.c_str());
  }
  std::printf("\n");
}

// Prints how fast the thread reads memory that no cache holds.
void MeasureMemory() {
  const std::vector<float> values(std::size_t{1} << 26, 1);
  double best_s = 1e30;
  volatile float kept = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const double begin_s = ThreadSeconds();
    float sums[64] = {};
    for (std::size_t i = 0; i < values.size(); i += 64) {
      for (std::size_t j = 0; j < 64; ++j) sums[j] += values[i + j];
    }
    best_s = std::min(best_s, ThreadSeconds() - begin_s);
    kept = kept + sums[0];
  }
  std::printf("one thread reads %.1f GB/s\n\n",
              static_cast<double>(values.size() * sizeof(float)) / best_s * 1e-9);
}

}  // namespace
}  // namespace gemmd

int main() {
  gemmd::MeasureMemory();
  for (const int m : {1, 8, 16, 64, 512}) gemmd::Measure(m, 4096, 4096);
  gemmd::Measure(1024, 1024, 1024);
}
