// Batches of the Hopper GEMM on this machine's GPU. Not a test: it needs one.
//   check   strided and scattered batches, every entry: the bits of launches one by one
//   time    a batch in one launch beside launches one by one
// Without arguments: both. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/half:wgmma_batch_on_gpu
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/hopper/half/batch_on_gpu.h"
#include "tests/kernels/hopper/half/hopper_batch.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

absl::Status LaunchOneByOne(const Kernel& kernel, const Problem& problem, const Config& config,
                            const std::vector<Arguments>& batch, const LaunchTarget& target) {
  for (const Arguments& arguments : batch) {
    const absl::Status status = kernel.Launch(problem, config, arguments, target);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

int Check() {
  HopperCase with_epilogue = {130, 200, 264, DataType::kBf16, false, false};
  with_epilogue.epilogue = {0.5, -1.5, true, Activation::kRelu};
  HopperCase columns = {77, 333, 136, DataType::kF16, false, true};
  columns.d_order = Order::kColumnMajor;
  const std::vector<HopperCase> cases = {{64, 136, 128, DataType::kF16, false, true},
                                         {130, 333, 1100, DataType::kBf16, false, true},
                                         {5, 1000, 520, DataType::kBf16, false, true},
                                         {300, 300, 300, DataType::kF16, false, true},
                                         with_epilogue,
                                         columns};
  int runs = 0;
  int failures = 0;
  for (const HopperCase& each : cases) {
    for (const Spacing spacing : {Spacing::kEqual, Spacing::kScattered, Spacing::kSharedA}) {
      for (const int problems : {2, 33, 70}) {
        HopperBatch batch(each, problems, spacing);
        BatchOnGpu gpu(&batch);
        std::vector<unsigned char> expected;
        for (const char* name : kHopperEntries) {
          const Kernel& kernel = *BuiltinRegistry().Find(name);
          if (!kernel.Rejection(batch.problem).empty()) continue;
          const Config config = kernel.Configure(batch.problem, H200());
          if (expected.empty()) {
            absl::Status status =
                LaunchOneByOne(kernel, batch.problem, config, gpu.arguments(), {});
            if (!status.ok()) std::printf("FAIL %s\n", status.ToString().c_str());
            CheckCuda(cudaDeviceSynchronize(), name);
            expected = gpu.Result();
          }
          gpu.Poison();
          const absl::Status status =
              kernel.LaunchBatch(batch.problem, config, gpu.arguments(), LaunchTarget());
          CheckCuda(cudaDeviceSynchronize(), name);
          ++runs;
          if (status.ok() && gpu.Result() == expected) continue;
          ++failures;
          std::printf("FAIL batch %s %s, %d problems, spacing %d: %s\n", name,
                      ToString(batch.problem).c_str(), problems, static_cast<int>(spacing),
                      status.ok() ? "other bits" : status.ToString().c_str());
        }
      }
    }
  }
  std::printf("batch check: %d runs, %d differ from launches one by one\n", runs, failures);
  return failures;
}

// Median of 9, microseconds of a call, with calls enough to fill 3 ms.
double MedianUs(const std::function<absl::Status()>& call) {
  cudaEvent_t begin;
  cudaEvent_t end;
  CheckCuda(cudaEventCreate(&begin), "event");
  CheckCuda(cudaEventCreate(&end), "event");
  const auto time = [&](int calls) {
    CheckCuda(cudaEventRecord(begin), "record");
    for (int i = 0; i < calls; ++i) {
      if (const absl::Status status = call(); !status.ok()) {
        std::printf("FAIL %s\n", status.ToString().c_str());
      }
    }
    CheckCuda(cudaEventRecord(end), "record");
    CheckCuda(cudaEventSynchronize(end), "wait");
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    return 1e3 * static_cast<double>(ms) / calls;
  };
  const int calls = std::clamp(static_cast<int>(3000 / std::max(1.0, time(3))), 3, 300);
  std::vector<double> samples;
  for (int i = 0; i < 9; ++i) samples.push_back(time(calls));
  std::sort(samples.begin(), samples.end());
  CheckCuda(cudaEventDestroy(begin), "event");
  CheckCuda(cudaEventDestroy(end), "event");
  return samples[4];
}

void Time() {
  struct Row {
    std::int64_t m, n, k;
    int problems;
  };
  std::printf(
      "us a batch: one by one (its plan), then one launch (its plan): strided, scattered\n");
  for (const Row& row : {Row{512, 512, 512, 2},
                         {512, 512, 512, 8},
                         {512, 512, 512, 32},
                         {512, 512, 512, 128},
                         {1024, 1024, 1024, 8},
                         {1024, 1024, 1024, 32},
                         {64, 1024, 1024, 32},
                         {16, 4096, 4096, 16},
                         {1, 4096, 4096, 16},
                         {256, 256, 256, 256},
                         {2048, 2048, 2048, 8}}) {
    for (const DataType type : {DataType::kBf16, DataType::kF16}) {
      const HopperCase each = {row.m, row.n, row.k, type, false, true};
      const Problem problem = MakeHopperProblem(each);
      const absl::StatusOr<Plan> one = Select(BuiltinRegistry(), problem, H200());
      const absl::StatusOr<Plan> many =
          Select(BuiltinRegistry(), problem, H200(), {}, nullptr, row.problems);
      if (!one.ok() || !many.ok()) continue;
      double us[3] = {};
      for (const Spacing spacing : {Spacing::kEqual, Spacing::kScattered}) {
        HopperBatch batch(each, row.problems, spacing);
        BatchOnGpu gpu(&batch);
        const std::vector<Arguments> arguments = gpu.arguments();
        if (spacing == Spacing::kEqual) {
          us[0] = MedianUs(
              [&] { return LaunchOneByOne(*one->kernel, problem, one->config, arguments, {}); });
        }
        us[spacing == Spacing::kEqual ? 1 : 2] = MedianUs([&] {
          return many->kernel->LaunchBatch(problem, many->config, arguments, LaunchTarget());
        });
      }
      std::printf("%5ldx%ldx%ld %s x %3d: %8.2f (%s)  %8.2f %8.2f (%s)  %.2f, %.0f TFLOP/s\n",
                  static_cast<long>(row.m), static_cast<long>(row.n), static_cast<long>(row.k),
                  Name(type).data(), row.problems, us[0], one->kernel->traits().name.c_str(), us[1],
                  us[2], many->kernel->traits().name.c_str(), us[0] / us[1],
                  problem.flops() * row.problems / us[1] / 1e6);
    }
  }
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (only.empty() || only == "check") failures += gemmd::testing::Check();
  std::fflush(stdout);
  if (only.empty() || only == "time") gemmd::testing::Time();
  return failures == 0 ? 0 : 1;
}
