// GOP/s of CPU kernels beside OpenBLAS' sgemm in the same run, one thread, in turns. Time is what
// the thread had of a processor, and each figure the best of its turns, because other programs can
// only slow it down:
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
#include "tests/testing/matrices.h"

namespace gemmd {
namespace {

constexpr int kTurns = 7;

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
    const absl::Status status = plan.kernel->Launch(problem, plan.config, arguments, target);
    if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
  };
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
  rivals.push_back({"OpenBLAS sgemm", [&] {
                      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(m),
                                  static_cast<int>(n), static_cast<int>(k), 1, a.data(),
                                  static_cast<int>(k), b.data(), static_cast<int>(n), 0, c.data(),
                                  static_cast<int>(n));
                    }});
  const auto add = [&](const Problem& problem) {
    std::string name;
    std::function<void()> run = Registered(problem, &name);
    rivals.push_back({std::move(name), std::move(run)});
  };
  add(MakeProblem(m, n, k, DataType::kF32, DataType::kF32));
  add(MakeProblem(m, n, k, DataType::kInt8, DataType::kInt32));
  Problem weights = MakeProblem(m, n, k, DataType::kBf16, DataType::kBf16, false, true);
  weights.b.type = DataType::kInt4;
  weights.b_scaling = FindQuantFormat("int4-g128-bf16")->scaling;
  add(weights);
  Problem groups = MakeProblem(m, n, k, DataType::kInt8, DataType::kF32, false, true);
  groups.a_scaling = groups.b_scaling = FindQuantFormat("int8-g128")->scaling;
  add(groups);
  Problem mx = MakeProblem(m, n, k, DataType::kFp8E4M3, DataType::kBf16, false, true);
  mx.a_scaling = mx.b_scaling = FindQuantFormat("mxfp8-e4m3")->scaling;
  add(mx);
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
    std::printf("%8.1f GOP/s %6.2f of sgemm  %s\n", operations / rival.best_s * 1e-9,
                rivals[0].best_s / rival.best_s, rival.name.c_str());
  }
  std::printf("\n");
}

}  // namespace
}  // namespace gemmd

int main() {
  gemmd::Measure(1024, 1024, 1024);
  gemmd::Measure(512, 4096, 4096);
  gemmd::Measure(8, 4096, 4096);
}
