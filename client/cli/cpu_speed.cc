#include "client/cli/cpu_speed.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/process/cpu_share.h"

namespace gemmd::cli {
namespace {

constexpr int kSize = 512;
constexpr double kFlops = 2.0 * kSize * kSize * kSize;

// sgemm and dgemm as every BLAS exports them (netlib's Fortran interface).
template <typename Real>
using Gemm = void (*)(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                      const int* k, const Real* alpha, const Real* a, const int* lda, const Real* b,
                      const int* ldb, const Real* beta, Real* c, const int* ldc);

// The best of the runs of a tenth of a second, the first excepted, which starts threads.
double BestGflops(const std::function<void()>& product) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLong(100);
  constexpr int kMostRuns = 50;
  product();
  const Clock::time_point start = Clock::now();
  double best = 0;
  for (int run = 0; run < kMostRuns && (run == 0 || Clock::now() - start < kLong); ++run) {
    const Clock::time_point begin = Clock::now();
    product();
    const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
    best = std::max(best, kFlops / std::max(took.count(), 1.0));
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
void PlainProduct(const Real* a, const Real* b, Real* c) {
  std::fill_n(c, kSize * kSize, Real{0});
  for (int row = 0; row < kSize; ++row) {
    for (int inner = 0; inner < kSize; ++inner) {
      const Real factor = a[row * kSize + inner];
      for (int column = 0; column < kSize; ++column) {
        c[row * kSize + column] += factor * b[inner * kSize + column];
      }
    }
  }
}

template <typename Real>
CpuSpeed Measure(const char* symbol) {
  const std::vector<Real> a(kSize * kSize, Real{1});
  const std::vector<Real> b(kSize * kSize, Real{0.5});
  std::vector<Real> c(kSize * kSize);
  for (const char* name : {"libmkl_rt.so.2", "libopenblas.so.0", "libblas.so.3"}) {
    // Never closed: its threads run on.
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto gemm = reinterpret_cast<Gemm<Real>>(dlsym(library, symbol));
    if (gemm == nullptr) continue;
    LimitThreads(library);
    const double gflops = BestGflops([&] {
      const Real one = 1;
      const Real zero = 0;
      gemm("N", "N", &kSize, &kSize, &kSize, &one, a.data(), &kSize, b.data(), &kSize, &zero,
           c.data(), &kSize);
    });
    return {gflops, name};
  }
  return {BestGflops([&] { PlainProduct(a.data(), b.data(), c.data()); }),
          "a plain loop, one thread"};
}

}  // namespace

CpuSpeed MeasureCpu(bool is_f64) {
  return is_f64 ? Measure<double>("dgemm_") : Measure<float>("sgemm_");
}

}  // namespace gemmd::cli
