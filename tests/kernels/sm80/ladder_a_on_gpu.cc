// Ladder A on this machine's GPU: `check` compares every step with the emulator bit by bit
// at small sizes, and at full size with each other and with binary64; `time` measures it
// against cuBLASLt, for all forms and sizes or for those named. Not a test: it needs a GPU.
// Build with
//   bazel build --config=h200 --config=opt //tests/kernels/sm80:ladder_a_on_gpu
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/kernels/emulator/half_matrix.h"
#include "tests/kernels/mma/half_run.h"
#include "tests/kernels/sm80/gpu_matrix.h"

namespace gemmd::testing {
namespace {

constexpr const char* kSteps[] = {"sm80/a01a", "sm80/a01b", "sm80/a02",
                                  "sm80/a03",  "sm80/a04",  "sm80/a05"};

void Launch(const std::string& name, const Problem& problem, const Arguments& arguments,
            const LaunchTarget& target) {
  const Kernel* kernel = BuiltinRegistry().Find(name);
  const std::string rejection = kernel->Rejection(problem);
  const absl::Status status = rejection.empty()
                                  ? kernel->Launch(problem, Config(), arguments, target)
                                  : absl::InvalidArgumentError(rejection);
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
  std::exit(1);
}

struct GpuOperands {
  explicit GpuOperands(const Problem& problem)
      : a(problem.a.size_bytes()), b(problem.b.size_bytes()), d(problem.d.size_bytes()) {
    arguments.a = a.data();
    arguments.b = b.data();
    arguments.d = d.data();
  }
  GpuMatrix a;
  GpuMatrix b;
  GpuMatrix d;
  Arguments arguments;
};

// ------------------------------------------------------------ check

HalfMatrix RunOnGpu(const char* step, const Problem& problem, const HalfMatrix& a,
                    const HalfMatrix& b) {
  HalfMatrix d(problem.m, problem.n);
  d.Fill(0x7fc1);
  GpuOperands gpu(problem);
  gpu.a.Put(a.data());
  gpu.b.Put(b.data());
  gpu.d.Put(d.data());
  Launch(step, problem, gpu.arguments, LaunchTarget());
  CheckCuda(cudaDeviceSynchronize(), step);
  gpu.d.Get(d.data());
  return d;
}

// D of the emulator: bits, padding and all.
bool EqualsEmulator(const char* step, ProductForm form, const Shape& shape) {
  const Problem problem = MakeHalfProblem(form, shape);
  HalfMatrix a(shape.m, shape.k);
  HalfMatrix b(shape.k, shape.n);
  HalfMatrix d(shape.m, shape.n);
  a.FillRandom(FormatOf(form), 1);
  b.FillRandom(FormatOf(form), 2);
  d.Fill(0x7fc1);
  Arguments arguments;
  arguments.a = a.data();
  arguments.b = b.data();
  arguments.d = d.data();
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  Launch(step, problem, arguments, target);
  const HalfMatrix on_gpu = RunOnGpu(step, problem, a, b);
  return std::memcmp(on_gpu.data(), d.data(), d.bytes()) == 0;
}

// The worst |D - exact| over the stated bound (ladder_a_registry.h), on every 127th row, of
// the first step; infinity where another step gives other bits.
double WorstError(ProductForm form, const Shape& shape) {
  const Problem problem = MakeHalfProblem(form, shape);
  HalfMatrix a(shape.m, shape.k);
  HalfMatrix b(shape.k, shape.n);
  a.FillRandom(FormatOf(form), 3);
  b.FillRandom(FormatOf(form), 4);
  const HalfMatrix d = RunOnGpu(kSteps[0], problem, a, b);
  for (const char* step : kSteps) {
    const HalfMatrix other = RunOnGpu(step, problem, a, b);
    if (std::memcmp(d.data(), other.data(), d.bytes()) != 0) return INFINITY;
  }
  const emulator::HalfFormat format = FormatOf(form);
  const double output_ulp = format == emulator::HalfFormat::kBf16 ? 0x1p-8 : 0x1p-11;
  const double steps = static_cast<double>(shape.k) / 16 + 1;
  double worst = 0;
  for (std::int64_t row = 0; row < shape.m; row += 127) {
    std::vector<double> exact(static_cast<std::size_t>(shape.n));
    std::vector<double> magnitude(static_cast<std::size_t>(shape.n));
    for (std::int64_t k = 0; k < shape.k; ++k) {
      const double factor = emulator::Widen(format, a.At(row, k));
      for (std::int64_t column = 0; column < shape.n; ++column) {
        const double product = factor * emulator::Widen(format, b.At(k, column));
        exact[static_cast<std::size_t>(column)] += product;
        magnitude[static_cast<std::size_t>(column)] += std::fabs(product);
      }
    }
    for (std::int64_t column = 0; column < shape.n; ++column) {
      const auto i = static_cast<std::size_t>(column);
      double bound = steps * 18 * std::ldexp(magnitude[i], -24) + std::fabs(exact[i]) * output_ulp;
      if (form == ProductForm::kF16AccumulateF16) bound += steps * std::ldexp(magnitude[i], -11);
      const double error = std::fabs(emulator::Widen(format, d.At(row, column)) - exact[i]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error / bound);
    }
  }
  return worst;
}

int Check() {
  constexpr Shape kSmall[] = {{1, 1, 1},     {128, 128, 128}, {77, 131, 333},
                              {300, 40, 72}, {260, 257, 40},  {512, 128, 1000}};
  constexpr Shape kLarge[] = {{4096, 4096, 4096}, {1023, 4095, 4097}};
  int failures = 0;
  int equal = 0;
  for (const char* step : kSteps) {
    for (const ProductForm form : kProductForms) {
      for (const Shape& shape : kSmall) {
        if (EqualsEmulator(step, form, shape)) {
          ++equal;
          continue;
        }
        ++failures;
        std::printf("%s %s %ldx%ldx%ld: differs from the emulator\n", step, Name(form),
                    static_cast<long>(shape.m), static_cast<long>(shape.n),
                    static_cast<long>(shape.k));
      }
    }
  }
  std::printf("%d small cases equal the emulator bit for bit, %d differ\n", equal, failures);
  for (const ProductForm form : kProductForms) {
    for (const Shape& shape : kLarge) {
      const double worst = WorstError(form, shape);
      failures += !(worst <= 1);
      std::printf("all steps %s %ldx%ldx%ld: the same bits, worst error %.3f of the bound\n",
                  Name(form), static_cast<long>(shape.m), static_cast<long>(shape.n),
                  static_cast<long>(shape.k), worst);
    }
  }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

// ------------------------------------------------------------ time

// cuBLASLt, opened at run time; row-major operands are its column-major ones, swapped.
class CublasLt {
 public:
  CublasLt(ProductForm form, const Problem& problem) {
    library_ = dlopen("libcublasLt.so.13", RTLD_NOW);
    if (library_ == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(1);
    }
    const bool is_f16_sum = form == ProductForm::kF16AccumulateF16;
    const cudaDataType type = form == ProductForm::kBf16AccumulateF32 ? CUDA_R_16BF : CUDA_R_16F;
    one_ = is_f16_sum ? static_cast<const void*>(&kHalfOne) : &kOne;
    zero_ = is_f16_sum ? static_cast<const void*>(&kHalfZero) : &kZero;
    Get<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_);
    Get<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")(
        &operation_, is_f16_sum ? CUBLAS_COMPUTE_16F : CUBLAS_COMPUTE_32F,
        is_f16_sum ? CUDA_R_16F : CUDA_R_32F);
    const auto layout = Get<decltype(&cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
    const auto n = static_cast<std::uint64_t>(problem.n);
    const auto m = static_cast<std::uint64_t>(problem.m);
    const auto k = static_cast<std::uint64_t>(problem.k);
    layout(&b_, type, n, k, problem.b.leading_dimension);
    layout(&a_, type, k, m, problem.a.leading_dimension);
    layout(&d_, type, n, m, problem.d.leading_dimension);
    cublasLtMatmulPreference_t preference;
    Get<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate")(&preference);
    std::uint64_t bytes = kWorkspaceBytes;
    Get<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute")(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    Get<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic")(
        handle_, operation_, b_, a_, d_, d_, preference, kAsked, found_, &count_);
    matmul_ = Get<decltype(&cublasLtMatmul)>("cublasLtMatmul");
  }

  int count() const { return count_; }

  void Launch(int i, const Arguments& arguments) const {
    matmul_(handle_, operation_, one_, arguments.b, b_, arguments.a, a_, zero_, arguments.d, d_,
            arguments.d, d_, &found_[i].algo, workspace_.data(), kWorkspaceBytes, nullptr);
  }

 private:
  template <typename F>
  F Get(const char* name) const {
    return reinterpret_cast<F>(dlsym(library_, name));
  }

  static constexpr int kAsked = 16;
  static constexpr std::uint64_t kWorkspaceBytes = 64 << 20;
  static constexpr float kOne = 1;
  static constexpr float kZero = 0;
  static constexpr std::uint16_t kHalfOne = 0x3c00;
  static constexpr std::uint16_t kHalfZero = 0;
  const void* one_;
  const void* zero_;
  void* library_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t operation_;
  cublasLtMatrixLayout_t a_;
  cublasLtMatrixLayout_t b_;
  cublasLtMatrixLayout_t d_;
  cublasLtMatmulHeuristicResult_t found_[kAsked];
  int count_ = 0;
  decltype(&cublasLtMatmul) matmul_;
  GpuMatrix workspace_{kWorkspaceBytes};
};

struct Contender {
  std::string name;
  std::function<void(int)> launch;  // with the operands of this turn
  std::vector<double> sustained_ms;
  std::vector<double> burst_ms;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

double Measure(const Contender& contender, int launches, GpuTimer* timer) {
  timer->Start();
  for (int i = 0; i < launches; ++i) contender.launch(i);
  return timer->Stop() / launches;
}

// At the power limit, whoever ran before sets the clock: a sustained slice follows one of
// the same kernel that is not measured, and every call gets its own orders.
void Time(ProductForm form, std::int64_t size, std::mt19937* generator) {
  constexpr int kRounds = 5;
  constexpr double kSliceMs = 100;
  constexpr double kBurstMs = 3;
  constexpr double kExpectedFlopsPerMs = 350e9;
  constexpr useconds_t kIdleUs = 30000;
  const Problem problem = MakeHalfProblem(form, {size, size, size});
  // Past the L2 cache of 50 MB in turns.
  std::vector<std::unique_ptr<GpuOperands>> operands;
  HalfMatrix values(size, size);
  for (std::uint32_t turn = 0; turn < 2; ++turn) {
    operands.push_back(std::make_unique<GpuOperands>(problem));
    values.FillRandom(FormatOf(form), 10 + turn);
    operands.back()->a.Put(values.data());
    values.FillRandom(FormatOf(form), 20 + turn);
    operands.back()->b.Put(values.data());
  }
  const auto arguments = [&](int i) -> const Arguments& {
    return operands[static_cast<std::size_t>(i) % operands.size()]->arguments;
  };
  const CublasLt cublas(form, problem);
  std::vector<Contender> contenders;
  for (int i = 0; i < cublas.count(); ++i) {
    contenders.push_back({"cublasLt", [&, i](int j) { cublas.Launch(i, arguments(j)); }, {}, {}});
  }
  GpuTimer timer;
  for (Contender& each : contenders) {
    Measure(each, 1, &timer);
    each.sustained_ms.push_back(Measure(each, 5, &timer));
  }
  std::sort(contenders.begin(), contenders.end(), [](const Contender& x, const Contender& y) {
    return x.sustained_ms[0] < y.sustained_ms[0];
  });
  if (contenders.size() > 3) contenders.resize(3);
  for (Contender& each : contenders) each.sustained_ms.clear();
  for (const char* step : kSteps) {
    contenders.push_back(
        {step, [&, step](int j) { Launch(step, problem, arguments(j), LaunchTarget()); }, {}, {}});
  }
  const double milliseconds = problem.flops() / kExpectedFlopsPerMs;
  const int slice = std::max(2, static_cast<int>(kSliceMs / milliseconds));
  const int burst = std::max(2, static_cast<int>(kBurstMs / milliseconds));
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(contenders.begin(), contenders.end(), *generator);
    for (Contender& each : contenders) {
      Measure(each, slice, &timer);
      each.sustained_ms.push_back(Measure(each, slice, &timer));
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(contenders.begin(), contenders.end(), *generator);
    for (Contender& each : contenders) {
      CheckCuda(cudaDeviceSynchronize(), each.name.c_str());
      usleep(kIdleUs);
      each.launch(0);
      each.burst_ms.push_back(Measure(each, burst, &timer));
    }
  }
  CheckCuda(cudaGetLastError(), "timing");
  double best_sustained = INFINITY;
  double best_burst = INFINITY;
  for (const Contender& each : contenders) {
    if (each.name != "cublasLt") continue;
    best_sustained = std::min(best_sustained, Median(each.sustained_ms));
    best_burst = std::min(best_burst, Median(each.burst_ms));
  }
  std::sort(contenders.begin(), contenders.end(),
            [](const Contender& x, const Contender& y) { return x.name < y.name; });
  std::printf("%s %ld cubed, TFLOP/s sustained and burst, ratio to cuBLASLt's best\n", Name(form),
              static_cast<long>(size));
  for (const Contender& each : contenders) {
    const double sustained = Median(each.sustained_ms);
    const double in_burst = Median(each.burst_ms);
    std::printf("  %-10s %6.1f (%.3f)  %6.1f (%.3f)\n", each.name.c_str(),
                problem.flops() / sustained * 1e-9, best_sustained / sustained,
                problem.flops() / in_burst * 1e-9, best_burst / in_burst);
  }
  std::fflush(stdout);
}

int TimeAll(const std::vector<std::string>& wanted) {
  const auto is_wanted = [&](const std::string& name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  std::mt19937 generator(7);
  for (const std::int64_t size : {4096, 8192}) {
    for (const ProductForm form : kProductForms) {
      if (is_wanted(Name(form) + std::string("_") + std::to_string(size))) {
        Time(form, size, &generator);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "check" && argc == 2) return gemmd::testing::Check();
  if (mode == "time") return gemmd::testing::TimeAll({argv + 2, argv + argc});
  std::fprintf(stderr, "usage: %s check | time [f16_f32_8192 ...]\n", argv[0]);
  return 2;
}
