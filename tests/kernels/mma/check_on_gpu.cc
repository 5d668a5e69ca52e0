#include "tests/kernels/mma/check_on_gpu.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {
namespace {

// From more rows on, binary64 compares fewer of them.
constexpr std::int64_t kManyRows = 4096;

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
  d.Fill(HalfOperands::kPoison);
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
  HalfOperands operands(form, shape);
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  Launch(step, problem, operands.arguments(), target);
  const HalfMatrix on_gpu = RunOnGpu(step, problem, operands.a, operands.b);
  return std::memcmp(on_gpu.data(), operands.d.data(), operands.d.bytes()) == 0;
}

// The worst |D - exact| over the stated bound (ladder_a_registry.h), on some rows, of the first
// kernel; infinity where another kernel gives other bits.
double WorstError(const std::vector<const char*>& kernels, ProductForm form, const Shape& shape) {
  const Problem problem = MakeHalfProblem(form, shape);
  HalfMatrix a(shape.m, shape.k);
  HalfMatrix b(shape.k, shape.n);
  a.FillRandom(FormatOf(form), 3);
  b.FillRandom(FormatOf(form), 4);
  const HalfMatrix d = RunOnGpu(kernels[0], problem, a, b);
  for (const char* step : kernels) {
    const HalfMatrix other = RunOnGpu(step, problem, a, b);
    if (std::memcmp(d.data(), other.data(), d.bytes()) != 0) return INFINITY;
  }
  const emulator::HalfFormat format = FormatOf(form);
  const double output_ulp = format == emulator::HalfFormat::kBf16 ? 0x1p-8 : 0x1p-11;
  const double steps = static_cast<double>(shape.k) / 16 + 1;
  std::vector<float> widened;  // B, once for all rows
  widened.reserve(static_cast<std::size_t>(shape.k * shape.n));
  for (std::int64_t k = 0; k < shape.k; ++k) {
    for (std::int64_t column = 0; column < shape.n; ++column) {
      widened.push_back(emulator::Widen(format, b.At(k, column)));
    }
  }
  const std::int64_t stride = shape.m <= kManyRows ? 127 : 1021;
  double worst = 0;
  for (std::int64_t row = 0; row < shape.m; row += stride) {
    std::vector<double> exact(static_cast<std::size_t>(shape.n));
    std::vector<double> magnitude(static_cast<std::size_t>(shape.n));
    for (std::int64_t k = 0; k < shape.k; ++k) {
      const double factor = emulator::Widen(format, a.At(row, k));
      for (std::int64_t column = 0; column < shape.n; ++column) {
        const double product = factor * widened[static_cast<std::size_t>(k * shape.n + column)];
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

}  // namespace

int CheckOnGpu(const std::vector<const char*>& kernels, const std::vector<ProductForm>& forms,
               const std::vector<Shape>& large) {
  constexpr Shape kSmall[] = {{1, 1, 1},     {128, 128, 128}, {77, 131, 333},
                              {300, 40, 72}, {260, 257, 40},  {512, 128, 1000}};
  int failures = 0;
  int equal = 0;
  for (const char* step : kernels) {
    for (const ProductForm form : forms) {
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
  for (const ProductForm form : forms) {
    for (const Shape& shape : large) {
      const double worst = WorstError(kernels, form, shape);
      failures += !(worst <= 1);
      std::printf("all kernels %s %ldx%ldx%ld: the same bits, worst error %.3f of the bound\n",
                  Name(form), static_cast<long>(shape.m), static_cast<long>(shape.n),
                  static_cast<long>(shape.k), worst);
    }
  }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace gemmd::testing
