#include "client/cli/bench/cpu_speed.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/process/cpu_share.h"

namespace gemmd::cli {
namespace {

// sgemm and dgemm as every BLAS exports them (netlib's Fortran interface).
template <typename Real>
using Gemm = void (*)(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                      const int* k, const Real* alpha, const Real* a, const int* lda, const Real* b,
                      const int* ldb, const Real* beta, Real* c, const int* ldc);

// The best of the runs of a tenth of a second, the first excepted, which starts threads.
double BestGflops(const CpuShape& shape, const std::function<void()>& product) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLong(100);
  constexpr int kMostRuns = 50;
  const double flops = 2.0 * shape.m * shape.n * shape.k;
  product();
  const Clock::time_point start = Clock::now();
  double best = 0;
  for (int run = 0; run < kMostRuns && (run == 0 || Clock::now() - start < kLong); ++run) {
    const Clock::time_point begin = Clock::now();
    product();
    const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
    best = std::max(best, flops / std::max(took.count(), 1.0));
  }
  return best;
}

// Libraries count CPUs by themselves, and know no quota of a control group.
void LimitThreads(void* library) {
  for (const char* name : {"openblas_set_num_threads", "MKL_Set_Num_Threads"}) {
    const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, name));
    if (set != nullptr) set(UsableCpus());
  }
}

template <typename Real>
void PlainProduct(const CpuShape& shape, const Real* a, const Real* b, Real* c) {
  std::fill_n(c, static_cast<std::size_t>(shape.m) * shape.n, Real{0});
  for (std::ptrdiff_t row = 0; row < shape.m; ++row) {
    for (std::ptrdiff_t inner = 0; inner < shape.k; ++inner) {
      const Real factor = a[row * shape.k + inner];
      for (std::ptrdiff_t column = 0; column < shape.n; ++column) {
        c[row * shape.n + column] += factor * b[inner * shape.n + column];
      }
    }
  }
}

template <typename Real>
CpuSpeed Measure(const char* symbol, const CpuShape& shape) {
  const auto matrix = [](int rows, int columns, double value) {
    return std::vector<Real>(static_cast<std::size_t>(rows) * columns, static_cast<Real>(value));
  };
  const std::vector<Real> a = matrix(shape.m, shape.k, 1);
  const std::vector<Real> b = matrix(shape.k, shape.n, 0.5);
  std::vector<Real> c = matrix(shape.m, shape.n, 0);
  for (const char* name : {"libmkl_rt.so.2", "libopenblas.so.0", "libblas.so.3"}) {
    // Never closed: its threads run on.
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto gemm = reinterpret_cast<Gemm<Real>>(dlsym(library, symbol));
    if (gemm == nullptr) continue;
    LimitThreads(library);
    // Row-major: D's transpose is that of B by that of A.
    const double gflops = BestGflops(shape, [&] {
      const Real one = 1;
      const Real zero = 0;
      gemm("N", "N", &shape.n, &shape.m, &shape.k, &one, b.data(), &shape.n, a.data(), &shape.k,
           &zero, c.data(), &shape.n);
    });
    return {gflops, name};
  }
  return {BestGflops(shape, [&] { PlainProduct(shape, a.data(), b.data(), c.data()); }),
          "a plain loop, one thread"};
}

}  // namespace

CpuSpeed MeasureCpu(bool is_f64, const CpuShape& shape) {
  return is_f64 ? Measure<double>("dgemm_", shape) : Measure<float>("sgemm_", shape);
}

}  // namespace gemmd::cli
