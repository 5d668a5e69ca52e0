// The Hopper GEMM on tf32 operands on this machine's GPU. Not a test: it needs one.
//   check   every entry, M of 1 to 512, D in both orders: the bits of tf32_run.h's model
//   rows    300 products of some rows of A: the bits that these rows have in the product of all
//   errors  errors beside cublaslt/tf32, as a table
// Without arguments: all. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/half:tf32_gemm_on_gpu
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/hopper/f32/error_data.h"
#include "tests/kernels/hopper/f32/on_gpu.h"
#include "tests/kernels/hopper/half/tf32_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

// To nearest, ties away from zero.
std::uint32_t RoundAway(std::uint32_t bits) {
  if ((bits & 0x7f800000) == 0x7f800000) return bits;
  return (bits + 0x1000) & ~std::uint32_t{0x1fff};
}
std::uint32_t Cut(std::uint32_t bits) { return bits; }

// The values that single numbers become.
int Probe() {
  const std::uint32_t numbers[] = {0x3f801000, 0x3f803000, 0x3f801001, 0x3f800fff, 0xbf801000,
                                   0xbf803000, 0x7f7fffff, 0x7f7ff000, 0x7f7fefff, 0x7f800000,
                                   0xff800000, 0x7f800001, 0x7fc00001, 0x7fffffff, 0x00000fff,
                                   0x00001000, 0x00001001, 0x00003000, 0x007fffff, 0x80001001};
  Tf32Run run({64, 8, 8});
  for (std::int64_t row = 0; row < 64; ++row) {
    for (std::int64_t i = 0; i < 8; ++i) run.SetA(row, i, 0);
  }
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t n = 0; n < 8; ++n) run.SetB(i, n, i == 0 && n == 0 ? 1.0F : 0.0F);
  }
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    float x;
    std::memcpy(&x, &numbers[i], 4);
    run.SetA(static_cast<std::int64_t>(i), 0, x);
  }
  const Kernel& kernel = Tf32Kernel("sm90/tf32_one64x64");
  LaunchOnGpu(&run, kernel, kernel.Configure(run.problem, H200()));
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    std::printf("probe %08x -> %08x, even %08x\n", numbers[i],
                run.BitsAt(static_cast<std::int64_t>(i), 0), emulator::RoundToTf32(numbers[i]));
  }
  return 0;
}

int Check() {
  int wrong = 0;
  int runs = 0;
  for (const std::string& name : AllTf32Entries()) {
    for (const std::int64_t m : {1, 2, 7, 16, 33, 64, 65, 129, 300, 512}) {
      F32Case c = {m, m % 2 == 0 ? 262 : 132, m % 3 == 0 ? 1000 : 260};
      c.d_order = m % 5 == 0 ? Order::kColumnMajor : Order::kRowMajor;
      Tf32Run run(c);
      run.b_is_settled = m % 2 == 0;
      LaunchOnGpu(&run, Tf32Kernel(name), Tf32Kernel(name).Configure(run.problem, H200()));
      const std::int64_t different = run.CountWrong();
      const bool is_right = different == 0 && run.d_plane.IsPaddingUntouched();
      if (!is_right) {
        std::printf("%s, %s: %lld elements differ, %lld from away, %lld from cut\n", name.c_str(),
                    ToString(run.problem).c_str(), static_cast<long long>(different),
                    static_cast<long long>(run.CountWrong(RoundAway)),
                    static_cast<long long>(run.CountWrong(Cut)));
      }
      wrong += !is_right;
      ++runs;
    }
  }
  std::printf("check: %d runs, %d differ\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

int Rows() {
  constexpr std::int64_t kRows = 512;
  const F32Case c = {kRows, 1000, 2052};
  Tf32Run whole(c);
  OnGpu on_gpu(whole);
  const std::vector<std::string> names = AllTf32Entries();
  const Kernel& first_kernel = Tf32Kernel(names.front());
  on_gpu.Launch(whole.problem, first_kernel, first_kernel.Configure(whole.problem, H200()));
  on_gpu.GetD(whole.d_plane.data());
  Tf32Run part(c);
  std::mt19937 random(1);
  int wrong = 0;
  constexpr int kRuns = 300;
  for (int i = 0; i < kRuns; ++i) {
    F32Case some = c;
    some.m = 1 + random() % (i % 2 == 0 ? 32 : kRows);
    const auto first = static_cast<std::int64_t>(random() % (kRows - some.m + 1));
    const Problem problem = MakeTf32Problem(some);
    const Kernel& kernel = Tf32Kernel(names[random() % names.size()]);
    on_gpu.Launch(problem, kernel, kernel.Configure(problem, H200()), first);
    on_gpu.GetD(part.d_plane.data());
    bool is_same = true;
    for (std::int64_t row = 0; row < some.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        is_same = is_same && part.BitsAt(row, column) == whole.BitsAt(first + row, column);
      }
    }
    wrong += !is_same;
  }
  std::printf("rows: %d runs, %d differ\n", kRuns, wrong);
  return wrong == 0 ? 0 : 1;
}

int Errors() {
  constexpr std::int64_t kSide = 192;
  std::printf("| data | K | cublaslt/tf32 largest, RMS | sm90/tf32 |\n|---|---|---|---|\n");
  for (const Data& data : AllData()) {
    for (const std::int64_t k : {64, 1024, 16384}) {
      ErrorRun run(data, kSide, k);
      run.run.problem.a.type = DataType::kTf32;
      run.run.problem.b.type = DataType::kTf32;
      run.run.problem.d.leading_dimension = kSide;
      run.run.d_plane = Plane(run.run.problem.d);
      std::printf("| %s | %lld |", data.name, static_cast<long long>(k));
      for (const char* const name : {"cublaslt/tf32", "sm90/tf32_one64x64"}) {
        const Kernel& kernel = *BuiltinRegistry().Find(name);
        LaunchOnGpu(&run.run, kernel, kernel.Configure(run.run.problem, H200()));
        const Error error = run.ErrorOfD();
        std::printf(" %.4g, %.4g |", error.largest, error.rms());
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (mode == "probe") failures += gemmd::testing::Probe();
  if (mode.empty() || mode == "check") failures += gemmd::testing::Check();
  if (mode.empty() || mode == "rows") failures += gemmd::testing::Rows();
  if (mode.empty() || mode == "errors") failures += gemmd::testing::Errors();
  return failures == 0 ? 0 : 1;
}
