#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cublaslt/cublaslt_call.h"
#include "kernels/cublaslt/matmul_engine.h"
#include "kernels/gemm.h"
#include "tests/kernels/cublaslt/cublaslt_cases.h"
#include "tests/kernels/cublaslt/gpu_arguments.h"
#include "tests/kernels/cublaslt/landed.h"
#include "tests/kernels/cublaslt/programs.h"

namespace gemmd::testing {
namespace {

// One row of the table.
struct Tally {
  int passed = 0;
  int failed = 0;
  int separate = 0;  // an epilogue of ours followed
  double worst = 0;  // error over its bound
  double worst_gelu = 0;
  std::vector<std::string> failures;  // the first few
};

Problem WithCase(const VendorCase& c, Problem problem, int variant) {
  problem.a.type = c.a;
  problem.b.type = c.b;
  problem.accumulate = c.accumulate;
  problem.determinism = Determinism::kFast;
  if (SizeBits(c.a) == 8 && c.d != DataType::kInt32) {
    constexpr Scaling kScalings[] = {Scaling::kNone, Scaling::kTensor, Scaling::kVector};
    problem.a_scaling = kScalings[variant % 3];
    problem.b_scaling = kScalings[variant / 3 % 3];
  }
  return problem;
}

// Bytes of D's lines beyond D, which no kernel may touch.
bool IsPaddingUntouched(const HostProblem& landed) {
  const MatrixLayout& d = landed.problem.d;
  const auto size = static_cast<std::size_t>(SizeBits(d.type) / 8);
  const auto pitch = static_cast<std::size_t>(d.leading_dimension) * size;
  for (std::size_t line = 0; line < static_cast<std::size_t>(d.outer()); ++line) {
    for (std::size_t i = static_cast<std::size_t>(d.inner()) * size; i < pitch; ++i) {
      if (landed.d[line * pitch + i] != static_cast<char>(0xA5)) return false;
    }
  }
  return true;
}

std::string RunOne(const VendorCase& c, const Problem& problem, const DeviceTraits& device,
                   std::uint32_t seed, double* worst, bool* is_separate) {
  HostProblem host = RandomProblem(problem, seed);
  HostProblem landed = Land(host);
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), landed.problem, device, c.kernel);
  if (!plan.ok()) return std::string(plan.status().message());
  *is_separate =
      plan->config.workspace_bytes > (std::uint64_t{32} << 20) || plan->workspace_bytes > 0;
  const GpuProblem gpu(landed, plan->workspace_bytes);
  const absl::Status status =
      plan->kernel->Launch(landed.problem, plan->config, gpu.arguments(), LaunchTarget());
  if (!status.ok()) return status.ToString();
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
    return cudaGetErrorString(error);
  }
  gpu.GetResult(&landed);
  if (!IsPaddingUntouched(landed)) return "wrote into the padding of D";
  Leave(landed, &host);
  *worst = WorstError(host, c.bound);
  return *worst <= 1 ? "" : absl::StrCat("error is ", *worst, " of its bound");
}

void Record(const std::string& failure, const Problem& problem, double worst, Tally* tally) {
  if (problem.epilogue.activation == Activation::kGeluTanh) {
    tally->worst_gelu = std::max(tally->worst_gelu, worst);
  } else {
    tally->worst = std::max(tally->worst, worst);
  }
  if (failure.empty()) {
    ++tally->passed;
    return;
  }
  ++tally->failed;
  if (tally->failures.size() < 4) {
    tally->failures.push_back(
        absl::StrCat(ToString(problem),
                     problem.d.order == Order::kRowMajor ? "" : " column-major D", ": ", failure));
  }
}

void Print(const std::string& title, const Tally& tally) {
  std::printf("%-38s %6d %6d %9d %11.4f %11.4f\n", title.c_str(), tally.passed, tally.failed,
              tally.separate, tally.worst, tally.worst_gelu);
  for (const std::string& failure : tally.failures) std::printf("    %s\n", failure.c_str());
  std::fflush(stdout);
}

// A row panel and a column panel of a planned problem, with the plan of the whole.
std::string RunPanels(const VendorCase& c, const DeviceTraits& device, double* worst) {
  Problem whole = WithCase(c, MakeProblem(512, 1024, 512, c.a, c.d, false, true), 8);
  if (c.d != DataType::kInt32) {
    whole.epilogue.has_bias = true;
    whole.epilogue.activation = Activation::kSilu;
  }
  const HostProblem landed = Land(RandomProblem(whole, 77));
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), landed.problem, device, c.kernel);
  if (!plan.ok()) return std::string(plan.status().message());
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{128, 1024}, {512, 256}, {80, 112}}) {
    HostProblem panel;
    panel.problem = whole;
    panel.problem.m = rows;
    panel.problem.n = columns;
    panel.problem.a.rows = rows;
    panel.problem.b.rows = columns;
    panel.problem.d = {c.d, rows, columns, Order::kRowMajor, columns};
    panel.problem.c = panel.problem.d;
    HostProblem host = RandomProblem(panel.problem, 78);
    HostProblem to = Land(host);
    const GpuProblem gpu(to, plan->workspace_bytes);
    const absl::Status status =
        plan->kernel->Launch(to.problem, plan->config, gpu.arguments(), LaunchTarget());
    if (!status.ok()) return status.ToString();
    CheckCuda(cudaDeviceSynchronize(), "panel");
    gpu.GetResult(&to);
    Leave(to, &host);
    *worst = std::max(*worst, WorstError(host, c.bound));
  }
  return *worst <= 1 ? "" : "error of a panel is over its bound";
}

}  // namespace

Counts CheckProducts(const DeviceTraits& device, int stride) {
  std::printf("%-38s %6s %6s %9s %11s %11s\n", "entry and types", "passed", "failed", "workspace",
              "error/bound", "gelu");
  Counts counts;
  for (const VendorCase& c : VendorCases()) {
    Tally tally;
    int variant = 0;
    // The generator knows no fp8 or tf32: shapes, orders and epilogues are the same.
    const DataType like = c.d == DataType::kInt32 ? DataType::kInt8 : DataType::kF32;
    for (const Problem& small : SmallProblems(like, c.d)) {
      if (++variant % stride != 0) continue;
      const Problem problem = WithCase(c, small, variant / stride);
      double worst = 0;
      bool is_separate = false;
      const std::string failure =
          RunOne(c, problem, device, static_cast<std::uint32_t>(variant), &worst, &is_separate);
      Record(failure, problem, worst, &tally);
      tally.separate += is_separate;
    }
    double worst = 0;
    const std::string failure = RunPanels(c, device, &worst);
    Record(failure, MakeProblem(512, 1024, 512, c.a, c.d), worst, &tally);
    Print(Title(c), tally);
    counts.passed += tally.passed;
    counts.failed += tally.failed;
  }
  return counts;
}

Counts ProbeExtents(const DeviceTraits& device) {
  using cublaslt::Arithmetic;
  std::printf("algorithms that cuBLASLt offers for 8-bit operands, D row-major (bf16, int32)\n");
  struct Extents {
    std::int64_t m, n, k;
  };
  for (const auto& [arithmetic, name] :
       {std::pair<Arithmetic, const char*>{Arithmetic::kInt8, "int8"},
        {Arithmetic::kFp8Promoted, "fp8_promoted"},
        {Arithmetic::kFp8Fast, "fp8_fast"}}) {
    const bool is_int = arithmetic == Arithmetic::kInt8;
    std::printf("  %s:", name);
    for (const Extents& e : {Extents{64, 64, 64},
                             {1, 64, 64},
                             {2, 64, 64},
                             {3, 64, 64},
                             {7, 64, 64},
                             {8, 64, 64},
                             {17, 64, 64},
                             {64, 1, 64},
                             {64, 4, 64},
                             {64, 8, 64},
                             {64, 24, 64},
                             {64, 20, 64},
                             {64, 17, 64},
                             {64, 64, 48},
                             {64, 64, 40},
                             {64, 64, 36},
                             {64, 64, 33},
                             {1, 8192, 8192}}) {
      Problem p = MakeProblem(e.m, e.n, e.k, is_int ? DataType::kInt8 : DataType::kFp8E4M3,
                              is_int ? DataType::kInt32 : DataType::kBf16, false, true);
      for (MatrixLayout* layout : {&p.a, &p.b, &p.c, &p.d}) {
        const std::int64_t unit = 128 / SizeBits(layout->type);
        layout->leading_dimension = (layout->inner() + unit - 1) / unit * unit;
      }
      const auto plan = cublaslt::CublasLtEngine().Plan(*cublaslt::FusedCall(arithmetic, p),
                                                        device.ordinal, 256, 32 << 20);
      std::printf(" %ldx%ldx%ld=%d", static_cast<long>(e.m), static_cast<long>(e.n),
                  static_cast<long>(e.k), plan.ok() ? (*plan)->count() : -1);
    }
    std::printf("\n");
  }
  return {};
}

}  // namespace gemmd::testing
