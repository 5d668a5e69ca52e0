// sm90/f64 on this machine's GPU. Not a test: it needs one.
//   instruction  products of one instruction of each kind: a chain of FMAs over ascending k
//   check        every tiling, layout and order of D, lines that start anywhere, ragged shapes:
//                each bit is that of a chain of FMAs on the host
//   data         the same for infinities, NaN, subnormals, cancelling sums, any bits
//   epilogue     alpha, beta, C and bias to the bit; activations to a few units
//   rows         products of some rows of A: the bits that these rows have in the product of all
//   large        large products: elements at random places
// Without arguments: all. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/f64:f64_product_on_gpu
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/hopper/f64/f64_run.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

// A run's planes on the GPU.
class OnGpu {
 public:
  explicit OnGpu(F64Run& run)
      : a_(run.problem.a.size_bytes()),
        b_(run.problem.b.size_bytes()),
        c_(run.problem.c.size_bytes()),
        d_(run.problem.d.size_bytes()),
        bias_(run.bias.size() * 8) {
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
    arguments_.a_is_settled = run.a_is_settled;
    arguments_.b_is_settled = run.b_is_settled;
  }

  // The run's problem or one of fewer rows, A's from `first_row` on.
  void Launch(const Problem& problem, const Config& config, std::int64_t first_row = 0) {
    Arguments arguments = arguments_;
    arguments.a = static_cast<const double*>(arguments_.a) + first_row * problem.a_row_stride();
    const absl::Status status = F64Kernel().Launch(problem, config, arguments, LaunchTarget());
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
  Arguments arguments_;
};

void LaunchOnGpu(F64Run* run, const Config& config) {
  OnGpu on_gpu(*run);
  on_gpu.Launch(run->problem, config);
  on_gpu.GetD(run->d_plane.data());
}

// Gives an element of operand 0, A, or 1, B.
using Element = std::function<double(int operand, std::int64_t line, std::int64_t k)>;

void Fill(const Element& element, F64Run* run) {
  for (std::int64_t k = 0; k < run->problem.k; ++k) {
    for (std::int64_t row = 0; row < run->problem.m; ++row) run->SetA(row, k, element(0, row, k));
    for (std::int64_t column = 0; column < run->problem.n; ++column) {
      run->SetB(k, column, element(1, column, k));
    }
  }
}

// The chains of a shape's data, whatever the layouts.
std::vector<double> Chains(const F64Run& run) {
  std::vector<double> chains;
  for (std::int64_t row = 0; row < run.problem.m; ++row) {
    for (std::int64_t column = 0; column < run.problem.n; ++column) {
      chains.push_back(run.Chain(row, column));
    }
  }
  return chains;
}

struct Tally {
  int runs = 0;
  int wrong = 0;

  void Add(const F64Run& run, const std::vector<double>& chains, const std::string& what) {
    std::int64_t different = 0;
    std::string first;
    for (std::int64_t row = 0; row < run.problem.m; ++row) {
      for (std::int64_t column = 0; column < run.problem.n; ++column) {
        const double expected = chains[static_cast<std::size_t>(row * run.problem.n + column)];
        const double got = run.D(row, column);
        if (std::isnan(expected) ? std::isnan(got) : BitsOfF64(got) == BitsOfF64(expected)) {
          continue;
        }
        char text[120];
        std::snprintf(text, sizeof text, ", first (%lld, %lld): %a, not %a",
                      static_cast<long long>(row), static_cast<long long>(column), got, expected);
        if (different++ == 0) first = text;
      }
    }
    const bool is_right = different == 0 && run.d_plane.IsPaddingUntouched();
    ++runs;
    wrong += !is_right;
    if (is_right || wrong > 20) return;
    std::printf("%s: %s: %lld elements differ%s\n", what.c_str(), ToString(run.problem).c_str(),
                static_cast<long long>(different), first.c_str());
  }

  int Result(const char* name) const {
    std::printf("%s: %d runs, %d differ\n", name, runs, wrong);
    std::fflush(stdout);
    return wrong == 0 ? 0 : 1;
  }
};

int Instruction() {
  Tally tally;
  for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
    const int step = hopper::f64::kTilings[tiling].step_k;
    for (int seed = 0; seed < 20; ++seed) {
      F64Run run({8, 16, step});
      Fill([&](int operand, std::int64_t line,
               std::int64_t k) { return F64Element(100 + seed * 2 + operand, line, k); },
           &run);
      LaunchOnGpu(&run, F64Config(tiling));
      tally.Add(run, Chains(run), "m16n8k" + std::to_string(step));
    }
  }
  return tally.Result("instruction");
}

int Check() {
  Tally tally;
  for (const F64Case& shape : {F64Case{77, 262, 101}, F64Case{1, 1, 1}, F64Case{7, 100, 1000},
                               F64Case{200, 33, 260}, F64Case{513, 130, 17}}) {
    const std::vector<double> chains = Chains(F64Run(shape));
    for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
      for (int which = 0; which < 16; ++which) {
        F64Case c = shape;
        c.transpose_a = (which & 1) != 0;
        c.transpose_b = (which & 2) != 0;
        c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
        c.has_units = (which & 8) == 0;
        F64Run run(c);
        run.a_is_settled = which % 3 == 0;
        run.b_is_settled = which % 5 < 3;
        LaunchOnGpu(&run, F64Config(tiling));
        tally.Add(run, chains, ToString(F64Config(tiling)));
      }
    }
  }
  return tally.Result("check");
}

std::vector<std::pair<const char*, Element>> AllData() {
  const auto bits = [](int operand, std::int64_t line, std::int64_t k) {
    return BitsAtPlace(static_cast<std::uint64_t>(70 + operand), line, k);
  };
  return {
      {"any bits", [=](int operand, std::int64_t line,
                       std::int64_t k) { return F64OfBits(bits(operand, line, k)); }},
      {"few infinities and NaN",
       [=](int operand, std::int64_t line, std::int64_t k) {
         const std::uint64_t x = bits(operand, line, k);
         if (x % 4096 < 3) return F64OfBits((x & (std::uint64_t{1} << 63)) | 0x7ff0000000000000u);
         if (x % 4096 == 3) return F64OfBits(x | 0x7ff8000000000000u);
         return F64Element(static_cast<std::uint64_t>(operand), line, k);
       }},
      {"subnormal",
       [=](int operand, std::int64_t line, std::int64_t k) {
         const std::uint64_t x = bits(operand, line, k);
         if (operand == 0) return F64OfBits(x & 0x800fffffffffffffu);
         return std::ldexp(F64Element(9, line, k), static_cast<int>(x % 80) - 40);
       }},
      {"products that underflow",
       [=](int operand, std::int64_t line, std::int64_t k) {
         return std::ldexp(F64Element(static_cast<std::uint64_t>(operand), line, k), -532);
       }},
      {"cancelling",
       [=](int operand, std::int64_t line, std::int64_t k) {
         // Each pair of products is nearly x - x.
         const double x = F64Element(static_cast<std::uint64_t>(20 + operand), line, k / 2);
         if (operand == 1) return x;
         return k % 2 == 0 ? x : -x * (1 + 0x1p-50 * static_cast<double>(k % 5));
       }},
      {"sums that overflow",
       [=](int operand, std::int64_t line, std::int64_t k) {
         return std::ldexp(F64Element(static_cast<std::uint64_t>(operand), line, k), 511);
       }},
      {"zeros of both signs",
       [=](int operand, std::int64_t line, std::int64_t k) {
         return bits(operand, line, k) % 2 == 0 ? 0.0 : -0.0;
       }},
  };
}

int DataOfAllKinds() {
  Tally tally;
  for (const auto& [name, element] : AllData()) {
    for (const F64Case& shape : {F64Case{65, 140, 203}, F64Case{3, 64, 64}}) {
      F64Run model(shape);
      Fill(element, &model);
      const std::vector<double> chains = Chains(model);
      for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
        F64Case c = shape;
        c.has_units = tiling % 2 == 0;
        c.transpose_a = tiling % 3 == 0;
        F64Run run(c);
        Fill(element, &run);
        LaunchOnGpu(&run, F64Config(tiling));
        tally.Add(run, chains, name);
      }
    }
  }
  return tally.Result("data");
}

int Epilogues() {
  int wrong = 0;
  int runs = 0;
  double worst = 0;  // of activations, relative
  for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kGeluTanh, Activation::kSilu}) {
      F64Case c = {70, 150, 90, false, false};
      c.d_order = tiling % 2 == 0 ? Order::kRowMajor : Order::kColumnMajor;
      c.epilogue = {0.3, -1.5, true, activation};
      F64Run run(c);
      LaunchOnGpu(&run, F64Config(tiling));
      std::int64_t different = 0;
      for (std::int64_t row = 0; row < c.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          double value = 0.3 * run.Chain(row, column);
          value += -1.5 * F64Run::C(row, column);
          value += F64Run::Bias(column);
          const double got = run.D(row, column);
          if (activation == Activation::kRelu) value = value < 0 ? 0 : value;
          if (activation == Activation::kNone || activation == Activation::kRelu) {
            different += BitsOfF64(got) != BitsOfF64(value);
            continue;
          }
          const double inner = 0.79788456080286535588 * (value + 0.044715 * value * value * value);
          const double expected = activation == Activation::kSilu
                                      ? value / (1 + std::exp(-value))
                                      : 0.5 * value * (1 + std::tanh(inner));
          // 1 + tanh cancels for values far below 0.
          const double error = std::fabs(got - expected) / std::fmax(std::fabs(value), 0x1p-1000);
          worst = std::fmax(worst, error);
          different += !(error < 0x1p-48);
        }
      }
      wrong += different != 0;
      ++runs;
      if (different != 0) {
        std::printf("epilogue %s, %s: %lld differ\n", ToString(run.problem).c_str(),
                    ToString(F64Config(tiling)).c_str(), static_cast<long long>(different));
      }
    }
  }
  std::printf("epilogue: %d runs, %d differ; activations by at most %.2g of the value\n", runs,
              wrong, worst);
  return wrong == 0 ? 0 : 1;
}

int Rows() {
  constexpr std::int64_t kRows = 512;
  Tally tally;
  std::mt19937 random(1);
  for (const F64Case& c : {F64Case{kRows, 262, 520}, F64Case{kRows, 1000, 300, false, false},
                           F64Case{kRows, 64, 2049, true, true}}) {
    F64Run whole(c);
    OnGpu on_gpu(whole);
    on_gpu.Launch(whole.problem, F64Kernel().Configure(whole.problem, H200()));
    on_gpu.GetD(whole.d_plane.data());
    for (int i = 0; i < 40; ++i) {
      F64Case some = c;
      some.m = 1 + random() % (i % 2 == 0 ? 32 : kRows);
      const auto first = static_cast<std::int64_t>(random() % (kRows - some.m + 1));
      F64Run part(some);
      part.problem.a.leading_dimension = whole.problem.a.leading_dimension;
      const Config config = i % 3 == 0
                                ? F64Config(static_cast<int>(random() % hopper::f64::kTilingCount))
                                : F64Kernel().Configure(part.problem, H200());
      // The padding that Tally looks at is that of the part's own plane.
      part.problem.d.leading_dimension = whole.problem.d.leading_dimension;
      on_gpu.Launch(part.problem, config, first);
      F64Run all(c);
      on_gpu.GetD(all.d_plane.data());
      std::vector<double> expected;
      for (std::int64_t row = 0; row < some.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          part.d_plane.Set(row, column, all.D(row, column));
          expected.push_back(whole.D(first + row, column));
        }
      }
      tally.Add(part, expected, ToString(config));
    }
  }
  return tally.Result("rows");
}

int Large() {
  int wrong = 0;
  int samples = 0;
  std::mt19937_64 random(2);
  for (const F64Case& c :
       {F64Case{2048, 2048, 2048, false, false}, F64Case{1000, 3000, 4097, true, true},
        F64Case{16, 8192, 4096, false, false}, F64Case{1, 4096, 8192, false, true},
        F64Case{64, 4096, 4096, false, false}}) {
    F64Run run(c);
    LaunchOnGpu(&run, F64Kernel().Configure(run.problem, H200()));
    for (int i = 0; i < 2000; ++i) {
      const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.m));
      const auto column = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.n));
      wrong += BitsOfF64(run.D(row, column)) != BitsOfF64(run.Chain(row, column));
      ++samples;
    }
  }
  std::printf("large: %d elements, %d differ\n", samples, wrong);
  return wrong == 0 ? 0 : 1;
}

struct Part {
  const char* name;
  int (*run)();
};
constexpr Part kParts[] = {{"instruction", Instruction}, {"check", Check}, {"data", DataOfAllKinds},
                           {"epilogue", Epilogues},      {"rows", Rows},   {"large", Large}};

int Main(const std::vector<std::string>& names) {
  int result = 0;
  for (const Part& part : kParts) {
    bool is_asked = names.empty();
    for (const std::string& name : names) is_asked = is_asked || name == part.name;
    if (is_asked) result |= part.run();
  }
  return result;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  return gemmd::testing::Main(std::vector<std::string>(argv + 1, argv + argc));
}
