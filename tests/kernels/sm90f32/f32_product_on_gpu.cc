// sm90/f32_bf16x6 on this machine's GPU. Not a test: it needs one.
//   check    every tiling, layout and order of D, M of 1 to 512: the bits of f32_planes.h's model
//   rows     600 products of some rows of A: the bits that these rows have in the product of all
//   special  how much longer products take whose operands are infinities
//   errors   largest and RMS error beside cublaslt/f32, as a table
// Without arguments: all. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/sm90f32:f32_product_on_gpu
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/sm80/gpu_matrix.h"
#include "tests/kernels/sm90f32/f32_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

// A run's planes on the GPU.
class OnGpu {
 public:
  explicit OnGpu(F32Run& run)
      : a_(run.problem.a.size_bytes()),
        b_(run.problem.b.size_bytes()),
        c_(run.problem.c.size_bytes()),
        d_(run.problem.d.size_bytes()),
        bias_(run.bias.size() * 4) {
    a_.Put(run.a_plane.data());
    b_.Put(run.b_plane.data());
    c_.Put(run.c_plane.data());
    d_.Put(run.d_plane.data());
    bias_.Put(run.bias.data());
    arguments_.a = a_.data();
    arguments_.b = b_.data();
    arguments_.c = c_.data();
    arguments_.d = d_.data();
    arguments_.bias = bias_.data();
    arguments_.b_is_settled = run.b_is_settled;
  }

  // The run's problem or one of fewer rows, A's from `first_row` on.
  void Launch(const Problem& problem, const Kernel& kernel, const Config& config,
              std::int64_t first_row = 0) {
    const std::uint64_t bytes = kernel.WorkspaceBytes(problem, config) + 256;
    if (workspace_ == nullptr || workspace_->bytes() < bytes) {
      workspace_ = std::make_unique<GpuMatrix>(bytes);
    }
    Arguments arguments = arguments_;
    arguments.a = static_cast<const float*>(arguments_.a) + first_row * problem.a_row_stride();
    arguments.workspace = workspace_->data();
    const absl::Status status = kernel.Launch(problem, config, arguments, LaunchTarget());
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }

  void GetD(void* to) {
    CheckCuda(cudaDeviceSynchronize(), "launch");
    d_.Get(to);
  }

 private:
  GpuMatrix a_;
  GpuMatrix b_;
  GpuMatrix c_;
  GpuMatrix d_;
  GpuMatrix bias_;
  std::unique_ptr<GpuMatrix> workspace_;
  Arguments arguments_;
};

// D of the run's planes, back into its plane.
void LaunchOnGpu(F32Run* run, const Kernel& kernel, const Config& config) {
  OnGpu on_gpu(*run);
  on_gpu.Launch(run->problem, kernel, config);
  on_gpu.GetD(run->d_plane.data());
}

int Check() {
  int wrong = 0;
  int runs = 0;
  const auto check = [&](const F32Case& c, int tiling, bool b_is_settled) {
    F32Run run(c);
    run.b_is_settled = b_is_settled;
    LaunchOnGpu(&run, F32Kernel(), F32Config(tiling));
    const std::int64_t different = run.CountWrong();
    const bool is_right = different == 0 && run.d_plane.IsPaddingUntouched();
    if (!is_right) {
      std::printf("tiling %d, %s: %lld elements differ\n", tiling, ToString(run.problem).c_str(),
                  static_cast<long long>(different));
    }
    wrong += !is_right;
    ++runs;
  };
  for (int tiling = 0; tiling < sm90f32::kTilingCount; ++tiling) {
    for (int which = 0; which < 16; ++which) {
      F32Case c = {77, 262, 300, (which & 1) != 0, (which & 2) != 0};
      c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
      c.a_gap = (which & 8) != 0 ? 1 : 0;
      check(c, tiling, which % 3 == 0);
    }
    for (const std::int64_t m : {1, 2, 7, 16, 33, 64, 65, 129, 512}) {
      check({m, 132, 520}, tiling, m % 2 == 0);
    }
  }
  std::printf("check: %d runs, %d differ\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

int Rows() {
  constexpr std::int64_t kRows = 512;
  int wrong = 0;
  int runs = 0;
  std::mt19937 random(1);
  for (const F32Case& c : {F32Case{kRows, 262, 520}, F32Case{kRows, 1000, 300, false, false},
                           F32Case{kRows, 64, 2049, true, true}}) {
    F32Run whole(c);
    OnGpu on_gpu(whole);
    on_gpu.Launch(whole.problem, F32Kernel(), F32Kernel().Configure(whole.problem, H200()));
    on_gpu.GetD(whole.d_plane.data());
    F32Run part(c);
    for (int i = 0; i < 200; ++i) {
      F32Case some = c;
      some.m = 1 + random() % (i % 2 == 0 ? 32 : kRows);
      const auto first = static_cast<std::int64_t>(random() % (kRows - some.m + 1));
      Problem problem = MakeF32Problem(some);
      problem.a.leading_dimension = whole.problem.a.leading_dimension;
      const Config config = i % 3 == 0
                                ? F32Config(static_cast<int>(random() % sm90f32::kTilingCount))
                                : F32Kernel().Configure(problem, H200());
      on_gpu.Launch(problem, F32Kernel(), config, first);
      on_gpu.GetD(part.d_plane.data());
      bool is_same = true;
      for (std::int64_t row = 0; row < some.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          is_same = is_same && part.BitsAt(row, column) == whole.BitsAt(first + row, column);
        }
      }
      wrong += !is_same;
      ++runs;
    }
  }
  std::printf("rows: %d runs, %d differ\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

double MsOf(F32Run& run, const Config& config) {
  constexpr int kTimes = 5;
  OnGpu on_gpu(run);
  GpuTimer timer;
  on_gpu.Launch(run.problem, F32Kernel(), config);
  timer.Start();
  for (int i = 0; i < kTimes; ++i) on_gpu.Launch(run.problem, F32Kernel(), config);
  return timer.Stop() / kTimes;
}

int Special() {
  for (const F32Case& c :
       {F32Case{1024, 1024, 1024}, F32Case{4096, 4096, 4096},
        F32Case{4096, 4096, 4096, false, false}, F32Case{1, 4096, 8192}, F32Case{64, 4096, 8192}}) {
    F32Run run(c);
    const Config config = F32Kernel().Configure(run.problem, H200());
    const double usual = MsOf(run, config);
    for (std::int64_t row = 0; row < c.m; ++row) {
      run.SetA(row, 0, std::numeric_limits<float>::infinity());
    }
    const double special = MsOf(run, config);
    std::printf("special: %s: %.3f ms, with infinities %.3f ms, %.1f times\n",
                ToString(run.problem).c_str(), usual, special, special / usual);
    std::fflush(stdout);
  }
  return 0;
}

struct Data {
  const char* name;
  // Draws an element; operand 0 is A, 1 is B.
  std::function<float(std::mt19937*, int operand, std::int64_t line, std::int64_t k)> element;
};

float Normal(std::mt19937* random) { return std::normal_distribution<float>()(*random); }

std::vector<Data> AllData() {
  return {
      {"normal", [](std::mt19937* r, int, std::int64_t, std::int64_t) { return Normal(r); }},
      {"uniform (0, 1)", [](std::mt19937* r, int, std::int64_t,
                            std::int64_t) { return std::uniform_real_distribution<float>()(*r); }},
      {"lognormal 2^(8s)",
       [](std::mt19937* r, int, std::int64_t, std::int64_t) {
         const float size = std::exp2(std::fmin(std::fmax(8 * Normal(r), -40.0F), 40.0F));
         return std::copysign(size, Normal(r));
       }},
      {"graded by 2^-63 along K",
       [](std::mt19937* r, int, std::int64_t line, std::int64_t k) {
         return std::ldexp(Normal(r), -static_cast<int>((k * 37 + line) % 64));
       }},
      {"integers to 2048",
       [](std::mt19937* r, int, std::int64_t, std::int64_t) {
         return static_cast<float>(static_cast<int>((*r)() % 4097) - 2048);
       }},
      {"subnormal A, B to 2^100",
       [](std::mt19937* r, int operand, std::int64_t, std::int64_t) {
         return operand == 0 ? std::ldexp(Normal(r), -130) : std::ldexp(Normal(r), 100);
       }},
  };
}

// The error |D - exact| over |A| |B|, in units of 2^-24.
struct Error {
  double largest = 0;
  double square = 0;
  std::int64_t count = 0;
  double rms() const { return std::sqrt(square / static_cast<double>(count)); }
};

Error ErrorOf(const F32Run& run, const std::vector<double>& exact,
              const std::vector<double>& magnitude) {
  Error error;
  for (std::int64_t i = 0; i < run.problem.m * run.problem.n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double value = run.D(i / run.problem.n, i % run.problem.n);
    const double relative = std::fabs(value - exact[at]) / magnitude[at] * 0x1p24;
    if (!(relative <= error.largest)) error.largest = relative;
    error.square += relative * relative;
    ++error.count;
  }
  return error;
}

int Errors() {
  constexpr std::int64_t kSide = 192;
  const Kernel& sgemm = *BuiltinRegistry().Find("cublaslt/f32");
  int above = 0;
  std::printf(
      "| data | K | SGEMM largest, RMS | sm90/f32_bf16x6 | ratios |\n|---|---|---|---|---|\n");
  for (const Data& data : AllData()) {
    for (const std::int64_t k : {64, 256, 1024, 4096, 16384}) {
      F32Run run({kSide, kSide, k});
      std::mt19937 random(static_cast<std::uint32_t>(k));
      std::vector<double> a(static_cast<std::size_t>(kSide * k));
      std::vector<double> b(a.size());
      for (std::int64_t line = 0; line < kSide; ++line) {
        for (std::int64_t i = 0; i < k; ++i) {
          const auto at = static_cast<std::size_t>(line * k + i);
          const float x = data.element(&random, 0, line, i);
          const float y = data.element(&random, 1, line, i);
          run.SetA(line, i, x);
          run.SetB(i, line, y);
          a[at] = x;
          b[at] = y;
        }
      }
      std::vector<double> exact(static_cast<std::size_t>(kSide * kSide));
      std::vector<double> magnitude(exact.size());
      for (std::int64_t at = 0; at < kSide * kSide; ++at) {
        const double* const x = &a[static_cast<std::size_t>(at / kSide * k)];
        const double* const y = &b[static_cast<std::size_t>(at % kSide * k)];
        double sum = 0;
        double size = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          sum += x[i] * y[i];
          size += std::fabs(x[i] * y[i]);
        }
        exact[static_cast<std::size_t>(at)] = sum;
        magnitude[static_cast<std::size_t>(at)] = size;
      }
      LaunchOnGpu(&run, sgemm, sgemm.Configure(run.problem, H200()));
      const Error theirs = ErrorOf(run, exact, magnitude);
      LaunchOnGpu(&run, F32Kernel(), F32Kernel().Configure(run.problem, H200()));
      const Error ours = ErrorOf(run, exact, magnitude);
      const bool is_above = !(ours.largest <= theirs.largest && ours.rms() <= theirs.rms());
      above += is_above;
      std::printf("| %s | %lld | %.3f, %.4f | %.3f, %.4f | %.3f, %.3f%s |\n", data.name,
                  static_cast<long long>(k), theirs.largest, theirs.rms(), ours.largest, ours.rms(),
                  ours.largest / theirs.largest, ours.rms() / theirs.rms(),
                  is_above ? " ABOVE" : "");
      std::fflush(stdout);
    }
  }
  std::printf("errors: %d above SGEMM's\n", above);
  return above == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (mode.empty() || mode == "check") failures += gemmd::testing::Check();
  if (mode.empty() || mode == "rows") failures += gemmd::testing::Rows();
  if (mode.empty() || mode == "special") failures += gemmd::testing::Special();
  if (mode.empty() || mode == "errors") failures += gemmd::testing::Errors();
  return failures == 0 ? 0 : 1;
}
