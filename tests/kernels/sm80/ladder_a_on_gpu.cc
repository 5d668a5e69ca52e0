// Ladder A on this machine's GPU: every step compared with the emulator bit by bit at small sizes,
// and at full size with each other and with binary64. Not a test: it needs a GPU. Times are those
// of
// //kernels/bench:kernel_bench. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/sm80:ladder_a_on_gpu
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/kernels/emulator/half_matrix.h"
#include "tests/kernels/sm80/gpu_matrix.h"
#include "tests/kernels/sm80/ladder_a_run.h"

namespace gemmd::testing {
namespace {

constexpr const char* kSteps[] = {"sm80/a01a", "sm80/a01b", "sm80/a02",
                                  "sm80/a03",  "sm80/a04",  "sm80/a05"};

Problem MakeHalfProblem(ProductForm form, const Shape& shape) {
  const DataType type = form == ProductForm::kBf16AccumulateF32 ? DataType::kBf16 : DataType::kF16;
  Problem problem = MakeProblem(shape.m, shape.n, shape.k, type, type);
  if (form == ProductForm::kF16AccumulateF16) problem.accumulate = DataType::kF16;
  problem.a.leading_dimension = (shape.k + 7) / 8 * 8;
  problem.b.leading_dimension = (shape.n + 7) / 8 * 8;
  problem.d.leading_dimension = (shape.n + 7) / 8 * 8;
  return problem;
}

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

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "";
  if (mode == "check") return gemmd::testing::Check();
  std::fprintf(stderr, "usage: %s check\n", argv[0]);
  return 2;
}
