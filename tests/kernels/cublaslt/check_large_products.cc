#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/cublaslt/cublaslt_cases.h"
#include "tests/kernels/cublaslt/gpu_arguments.h"
#include "tests/kernels/cublaslt/large_problem.h"
#include "tests/kernels/cublaslt/programs.h"
#include "tests/testing/products/reference.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kRowStep = 377;

// The worst error over its bound on every kRowStep-th row, columns beyond n left out.
double WorstOnRows(const HostProblem& host, std::int64_t m, std::int64_t n,
                   const ErrorBound& bound) {
  const Problem& p = host.problem;
  std::vector<float> b(static_cast<std::size_t>(n * p.k));
  for (std::int64_t column = 0; column < n; ++column) {
    for (std::int64_t k = 0; k < p.k; ++k) {
      b[static_cast<std::size_t>(column * p.k + k)] =
          static_cast<float>(Value(p.b, host.b, column, k));
    }
  }
  const double ulp = p.d.type == DataType::kF32   ? 0x1p-24
                     : p.d.type == DataType::kF16 ? 0x1p-11
                                                  : 0x1p-8;
  double worst = 0;
  std::vector<double> a(static_cast<std::size_t>(p.k));
  for (std::int64_t row = 0; row < m; row += kRowStep) {
    for (std::int64_t k = 0; k < p.k; ++k) {
      a[static_cast<std::size_t>(k)] = Value(p.a, host.a, row, k);
    }
    for (std::int64_t column = 0; column < n; ++column) {
      double exact = 0;
      double magnitude = 0;
      const float* line = b.data() + column * p.k;
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double product = a[static_cast<std::size_t>(k)] * static_cast<double>(line[k]);
        exact += product;
        magnitude += std::fabs(product);
      }
      const double error = std::fabs(LoadElement(p.d, host.d.data(), row, column) - exact);
      const double limit =
          bound.exact
              ? 0x1p-60
              : (bound.per_term * (static_cast<double>(p.k) + 4) + bound.fixed) * magnitude +
                    ulp * std::fabs(exact);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error / limit);
    }
  }
  return worst;
}

}  // namespace

Counts CheckLargeProducts(const DeviceTraits& device) {
  struct Shape {
    std::int64_t m, n, k;
  };
  Counts counts;
  std::printf("large products, error over its bound: 4096 cubed, 1023x4095x4097\n");
  for (const VendorCase& c : VendorCases()) {
    // f64 reads its operands as binary32 here; other output types add nothing at this size.
    if (c.a == DataType::kF64 || c.b == DataType::kFp8E5M2) continue;
    if (c.d != DefaultOutputType(c.a)) continue;
    std::printf("  %-36s", Title(c).c_str());
    for (const Shape& s : {Shape{4096, 4096, 4096}, {1023, 4095, 4097}}) {
      HostProblem host = QuickProblem(s.m, s.n, s.k, c.a, c.b, c.d, 9);
      host.problem.accumulate = c.accumulate;
      const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), host.problem, device, c.kernel);
      double worst = INFINITY;
      if (plan.ok()) {
        const GpuProblem gpu(host, plan->workspace_bytes);
        const absl::Status status =
            plan->kernel->Launch(host.problem, plan->config, gpu.arguments(), LaunchTarget());
        CheckCuda(cudaDeviceSynchronize(), c.kernel);
        gpu.GetResult(&host);
        if (status.ok()) worst = WorstOnRows(host, s.m, s.n, c.bound);
      }
      std::printf(" %9.5f", worst);
      counts.passed += worst <= 1;
      counts.failed += !(worst <= 1);
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return counts;
}

}  // namespace gemmd::testing
