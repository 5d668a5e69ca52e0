#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/workshop/bench/protocol.h"
#include "tests/kernels/cublaslt/bare_cublaslt.h"
#include "tests/kernels/cublaslt/cublaslt_cases.h"
#include "tests/kernels/cublaslt/gpu_arguments.h"
#include "tests/kernels/cublaslt/large_problem.h"
#include "tests/kernels/cublaslt/programs.h"

namespace gemmd::testing {
namespace {

using QueueOne = std::function<void(int turn)>;

double Measure(const QueueOne& queue, int launches, GpuTimer* timer) {
  timer->Start();
  for (int i = 0; i < launches; ++i) queue(i);
  return timer->Stop() / launches;
}

// Contenders on the default stream, for the project's timing protocol.
class OnGpu final : public bench::Stage {
 public:
  explicit OnGpu(std::vector<QueueOne> contenders) : contenders_(std::move(contenders)) {}

  absl::StatusOr<double> Time(int contender, int launches) override {
    const double each =
        Measure(contenders_[static_cast<std::size_t>(contender)], launches, &timer_);
    CheckCuda(cudaGetLastError(), "timing");
    return each * launches;
  }
  void Idle(double milliseconds) override { usleep(static_cast<useconds_t>(milliseconds * 1e3)); }

 private:
  const std::vector<QueueOne> contenders_;
  GpuTimer timer_;
};

// The config of the shortest of five launches each.
Config Best(const Plan& plan, const Problem& problem, const DeviceTraits& device,
            const std::vector<std::unique_ptr<GpuProblem>>& operands) {
  Config best = plan.config;
  double best_ms = INFINITY;
  GpuTimer timer;
  for (const Config& config : plan.kernel->Alternatives(problem, device)) {
    const QueueOne queue = [&](int i) {
      const absl::Status status = plan.kernel->Launch(
          problem, config, operands[static_cast<std::size_t>(i) % operands.size()]->arguments(),
          LaunchTarget());
      if (!status.ok()) std::exit(1);
    };
    Measure(queue, 1, &timer);
    const double ms = Measure(queue, 5, &timer);
    if (ms >= best_ms) continue;
    best_ms = ms;
    best = config;
  }
  return best;
}

struct Shape {
  std::int64_t m, n, k;
};

// One line of the table; whether the vendor path is within 2 % of the bare one.
bool TimeOne(const VendorCase& c, const Shape& s, const DeviceTraits& device,
             std::mt19937_64* order) {
  constexpr std::uint64_t kMostWorkspace = std::uint64_t{256} << 20;
  std::vector<std::unique_ptr<GpuProblem>> operands;
  Problem problem;
  for (std::uint32_t turn = 0; turn < 2; ++turn) {  // past the L2 in turns
    const HostProblem host = QuickProblem(s.m, s.n, s.k, c.a, c.b, c.d, 10 + turn);
    problem = host.problem;
    operands.push_back(std::make_unique<GpuProblem>(host, kMostWorkspace));
  }
  const auto arguments = [&operands](int i) -> const Arguments& {
    return operands[static_cast<std::size_t>(i) % operands.size()]->arguments();
  };
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, device, c.kernel);
  if (!plan.ok()) {
    std::printf("%s: %s\n", c.kernel, std::string(plan.status().message()).c_str());
    return false;
  }
  const auto launch = [&](const Config& config, int i) {
    const absl::Status status = plan->kernel->Launch(problem, config, arguments(i), LaunchTarget());
    if (status.ok()) return;
    std::fprintf(stderr, "%s: %s\n", c.kernel, status.ToString().c_str());
    std::exit(1);
  };
  BareCublasLt bare(problem, std::string(c.kernel) == "cublaslt/fp8_fast");
  const Config best = Best(*plan, problem, device, operands);
  OnGpu stage({[&](int i) { bare.Launch(0, arguments(i)); },
               [&](int i) { launch(plan->config, i); }, [&](int i) { launch(best, i); }});
  const std::vector<bench::Timing> timings = bench::TimeAll(3, bench::Protocol(), order, &stage);
  enum { kBare, kEntry, kBest };
  const auto sustained = [&](int i) {
    return timings[static_cast<std::size_t>(i)].sustained_ms.median;
  };
  const auto burst = [&](int i) { return timings[static_cast<std::size_t>(i)].burst_ms.median; };
  const double sustained_ratio = sustained(kEntry) / sustained(kBare);
  const double burst_ratio = burst(kEntry) / burst(kBare);
  const double tflops = problem.flops() * 1e-9;
  std::printf("%-30s %4ldx%ldx%ld %9.2f %8.1f %8.1f %7.4f %7.4f %4d/%-2d %8.1f %8.1f %7.1f\n",
              Title(c).c_str(), static_cast<long>(problem.m), static_cast<long>(problem.n),
              static_cast<long>(problem.k), burst(kBare) * 1e3, tflops / sustained(kBare),
              tflops / burst(kBare), sustained_ratio, burst_ratio, best.algorithm, bare.count(),
              tflops / sustained(kBest), tflops / burst(kBest), plan->predicted_us);
  std::fflush(stdout);
  return sustained_ratio <= 1.02 && burst_ratio <= 1.02;
}

double QueueUs(const std::function<void(int)>& launch) {
  constexpr int kLaunches = 200;
  std::vector<double> us;
  for (int round = 0; round < 21; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch(i);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    us.push_back(took.count() / kLaunches);
    CheckCuda(cudaDeviceSynchronize(), "queue");
  }
  return bench::Median(us);
}

// Measures a launch's cost to the CPU that queues it, at a size where the GPU keeps up.
Counts TimeQueueing(const DeviceTraits& device) {
  const HostProblem host =
      QuickProblem(64, 64, 64, DataType::kBf16, DataType::kBf16, DataType::kBf16, 3);
  const GpuProblem gpu(host, 32 << 20);
  const absl::StatusOr<Plan> plan =
      Select(BuiltinRegistry(), host.problem, device, "cublaslt/bf16");
  if (!plan.ok()) return {0, 1};
  BareCublasLt bare(host.problem, false);
  const double bare_us = QueueUs([&](int) { bare.Launch(0, gpu.arguments()); });
  const double entry_us = QueueUs([&](int) {
    if (!plan->kernel->Launch(host.problem, plan->config, gpu.arguments(), LaunchTarget()).ok()) {
      std::exit(1);
    }
  });
  const double select_us = QueueUs([&](int) {
    if (!Select(BuiltinRegistry(), host.problem, device, "cublaslt/bf16").ok()) std::exit(1);
  });
  std::printf("queueing 64 cubed bf16: bare %.2f us, entry %.2f us; selection by name %.2f us\n",
              bare_us, entry_us, select_us);
  const bool is_quick = entry_us - bare_us < 5;
  return {is_quick, !is_quick};
}

}  // namespace

Counts TimeProducts(const DeviceTraits& device) {
  Counts counts = TimeQueueing(device);
  std::mt19937_64 order(7);
  std::printf("bare: cuBLASLt's first algorithm; entry/bare: time; best: of the algorithms\n");
  std::printf("%-30s %14s %9s %17s %15s %7s %17s %7s\n", "types", "shape", "bare us",
              "bare TFLOP/s s,b", "entry/bare s,b", "best", "best TFLOP/s s,b", "predict");
  for (const VendorCase& c : VendorCases()) {
    if (c.b == DataType::kFp8E5M2 || c.a == DataType::kFp8E5M2) continue;
    if (c.accumulate == DataType::kF16 || c.d != DefaultOutputType(c.a)) {
      if (!(c.a == DataType::kBf16 && c.d == DataType::kF32)) {
        if (!(c.a == DataType::kTf32 && c.d == DataType::kF32)) continue;
      }
    }
    for (const Shape& s : {Shape{4096, 4096, 4096}, {16, 8192, 8192}}) {
      const bool is_close = TimeOne(c, s, device, &order);
      counts.passed += is_close;
      counts.failed += !is_close;
    }
  }
  return counts;
}

}  // namespace gemmd::testing
